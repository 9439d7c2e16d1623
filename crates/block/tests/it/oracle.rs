//! Random sequences of requests against a plain byte array: on every provider, directly and through NBD, with reopening,
//! snapshots, clones and growth in between. A failed seed is printed by proptest and belongs into `proptest-regressions`.

use std::sync::Arc;

use block::device::{BlockDevice, ExtentKind, ZeroMode};
use block::provider::{CapacityRange, CreateSnapshot, CreateVolume};
use bytes::Bytes;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::stage::{MIB, Served, Stage, file, memory, node, run, snapshot, volume};

#[derive(Debug, Clone)]
enum Step {
    Write {
        offset: u64,
        length: u64,
        byte: u8,
        fua: bool,
    },
    Trim {
        offset: u64,
        length: u64,
    },
    Zero {
        offset: u64,
        length: u64,
        no_hole: bool,
    },
    Read {
        offset: u64,
        length: u64,
    },
    Status {
        offset: u64,
        length: u64,
    },
    Flush,
    Reopen,
    Clone,
    Grow,
}

/// Ranges that often touch block borders and the end.
fn range() -> impl Strategy<Value = (u64, u64)> {
    let offset = prop_oneof![0..MIB, (0..256u64).prop_map(|n| n * 4096), Just(MIB - 1)];
    let length = prop_oneof![
        1..10_000u64,
        (1..64u64).prop_map(|n| n * 4096),
        Just(4096),
        Just(MIB)
    ];
    (offset, length).prop_map(|(offset, length)| (offset, length.min(MIB - offset)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (range(), 1..=255u8, any::<bool>()).prop_map(|((offset, length), byte, fua)|
            Step::Write { offset, length, byte, fua: fua && byte < 16 }),
        2 => range().prop_map(|(offset, length)| Step::Trim { offset, length }),
        2 => (range(), any::<bool>()).prop_map(|((offset, length), no_hole)| Step::Zero { offset, length, no_hole }),
        3 => range().prop_map(|(offset, length)| Step::Read { offset, length }),
        2 => range().prop_map(|(offset, length)| Step::Status { offset, length }),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        1 => Just(Step::Clone),
        1 => Just(Step::Grow),
    ]
}

async fn read_all(device: &Arc<dyn BlockDevice>) -> Vec<u8> {
    let size = u32::try_from(device.size()).unwrap();
    device.read_at(0, size).await.unwrap().to_vec()
}

async fn play(stage: Stage, steps: Vec<Step>) {
    let provider = Arc::clone(&stage.provider);
    let mut oracle = vec![0u8; MIB as usize];
    let mut name = "vol-0".to_owned();
    stage.blank(&name, MIB).await;
    let mut device = stage.opened(&name).await;
    for (count, step) in steps.into_iter().enumerate() {
        match step {
            Step::Write {
                offset,
                length,
                byte,
                fua,
            } => {
                let (from, to) = (offset as usize, (offset + length) as usize);
                oracle[from..to].fill(byte);
                device
                    .write_at(offset, Bytes::from(vec![byte; length as usize]), fua)
                    .await
                    .unwrap();
            }
            Step::Trim { offset, length } => {
                let end = offset + length;
                let (from, to) = (
                    offset.next_multiple_of(4096),
                    if end == oracle.len() as u64 {
                        end
                    } else {
                        end & !4095
                    },
                );
                if from < to {
                    oracle[from as usize..to as usize].fill(0);
                }
                device.trim(offset, length, false).await.unwrap();
            }
            Step::Zero {
                offset,
                length,
                no_hole,
            } => {
                oracle[offset as usize..(offset + length) as usize].fill(0);
                let mode = ZeroMode {
                    no_hole,
                    ..ZeroMode::default()
                };
                device.write_zeroes(offset, length, mode).await.unwrap();
            }
            Step::Read { offset, length } => {
                let read = device.read_at(offset, length as u32).await.unwrap();
                assert!(
                    read[..] == oracle[offset as usize..(offset + length) as usize],
                    "step {count}"
                );
            }
            Step::Status { offset, length } => {
                let extents = device.block_status(offset, length, 1024).await.unwrap();
                let mut place = offset as usize;
                for extent in extents {
                    let end = place + extent.length as usize;
                    assert!(
                        extent.kind == ExtentKind::Data || oracle[place..end].iter().all(|byte| *byte == 0),
                        "step {count}: {extent:?} at {place} holds data"
                    );
                    place = end;
                }
                assert!(place <= (offset + length) as usize);
            }
            Step::Flush => device.flush().await.unwrap(),
            Step::Reopen => {
                stage.put_away(&name, device).await;
                device = stage.opened(&name).await;
            }
            Step::Clone => {
                stage.put_away(&name, device).await;
                let cut = CreateSnapshot {
                    snapshot: snapshot(&format!("snap-{count}")),
                    volume: volume(&name),
                    volume_handle: None,
                };
                let view = provider.create_snapshot(cut).await.unwrap();
                let next = format!("vol-{count}-c");
                let request = CreateVolume::from_snapshot(volume(&next), oracle.len() as u64, &view);
                provider.create_volume(request).await.unwrap();
                provider.delete_volume(&volume(&name), None).await.unwrap();
                provider.delete_snapshot(&view.snapshot, None).await.unwrap();
                name = next;
                device = stage.opened(&name).await;
            }
            Step::Grow => {
                oracle.resize(oracle.len() + 4096, 0);
                let range = CapacityRange::exactly(oracle.len() as u64);
                provider.expand_volume(&volume(&name), None, range).await.unwrap();
                assert_eq!(device.refresh_size().await.unwrap(), oracle.len() as u64);
            }
        }
    }
    assert!(read_all(&device).await == oracle);
    stage.put_away(&name, device).await;
    let device = stage.opened(&name).await;
    assert!(read_all(&device).await == oracle, "after reopening");
    device.close().await.unwrap();
    provider
        .unpublish_volume(&volume(&name), None, &node("n1"))
        .await
        .unwrap();
}

fn on_runtime(stage: impl FnOnce() -> Stage, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { play(stage(), steps).await });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_a_byte_array(steps in proptest::collection::vec(step(), 1..120)) {
        on_runtime(memory, steps);
    }

    #[test]
    fn file_is_a_byte_array(steps in proptest::collection::vec(step(), 1..80)) {
        on_runtime(file, steps);
    }
}

/// The same through NBD, by libnbd, with many requests in flight that do not overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbd_is_a_byte_array() {
    for stage in [memory(), file()] {
        stage.blank("vol-1", 4 * MIB).await;
        let device = stage.opened("vol-1").await;
        let served = Served::new(stage.directory.path(), Arc::clone(&device));
        let script = format!(
            r#"
import nbd, random, sys
random.seed(20261130)
M = 1 << 20
size = 4 * M
oracle = bytearray(size)
handles = []
for n in range(3):
    h = nbd.NBD()
    h.add_meta_context("base:allocation")
    h.connect_unix({:?})
    handles.append(h)
for step in range(400):
    # Up to 16 requests at once, in ranges of their own.
    cuts = sorted(random.sample(range(size), 32))
    if step % 2:
        cuts = sorted(set(c & ~4095 for c in cuts))
    reads, work = [], []
    for offset, end in zip(cuts[0::2], cuts[1::2]):
        length = min(end - offset, random.choice([1, 512, 4096, 70000, 300000]))
        if length <= 0:
            continue
        h = random.choice(handles)
        kind = random.randrange(5)
        if kind <= 1:
            data = random.randbytes(length)
            oracle[offset:offset + length] = data
            flags = nbd.CMD_FLAG_FUA if random.randrange(40) == 0 else 0
            work.append((h, h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset, flags=flags)))
        elif kind == 2:
            start, stop = (offset + 4095) & ~4095, (offset + length) & ~4095
            if start < stop:
                oracle[start:stop] = bytes(stop - start)
            work.append((h, h.aio_trim(length, offset)))
        elif kind == 3:
            oracle[offset:offset + length] = bytes(length)
            work.append((h, h.aio_zero(length, offset, flags=random.choice([0, nbd.CMD_FLAG_NO_HOLE]))))
        else:
            buffer = nbd.Buffer(length)
            reads.append((buffer, offset, length))
            work.append((h, h.aio_pread(buffer, offset)))
    for h in handles:
        while h.aio_in_flight() > 0:
            h.poll(-1)
    for h, cookie in work:
        assert h.aio_command_completed(cookie)
    for buffer, offset, length in reads:
        assert buffer.to_bytearray() == oracle[offset:offset + length], (step, offset, length)
    if step % 50 == 0:
        random.choice(handles).flush()
        assert bytes(oracle) == random.choice(handles).pread(size, 0), step
assert bytes(oracle) == handles[0].pread(size, 0)
print("done")
"#,
            served.socket.display().to_string()
        );
        assert_eq!(run("/usr/bin/python3", &["-c", &script]).await.trim(), "done");
        device.close().await.unwrap();
    }
}
