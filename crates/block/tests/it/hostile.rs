//! Broken clients: random bytes, cut-off sessions, lies about lengths. Each ends its own connection; the server serves on.

use std::path::Path;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::stage::{MIB, Served, file, run};

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;

/// Reads until the server ends the connection.
async fn ends(mut stream: UnixStream) -> bool {
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest)).await;
    // A reset is an end, too.
    ended.is_ok()
}

async fn connected(socket: &Path) -> UnixStream {
    UnixStream::connect(socket).await.unwrap()
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&7u64.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes
}

fn into_transmission() -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(option(8, &[]));
    bytes.extend(option(1, &[]));
    bytes
}

/// A session that starts well and goes wrong somewhere.
fn broken_session(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = match random.random_range(0..6) {
        0 => Vec::new(),
        1 => 3u32.to_be_bytes().to_vec(),
        _ => into_transmission(),
    };
    for _ in 0..random.random_range(0..20) {
        match random.random_range(0..6) {
            0 => {
                let data: Vec<u8> = (0..random.random_range(0..64)).map(|_| random.random()).collect();
                bytes.extend(option(random.random_range(0..14), &data));
            }
            1 | 2 => {
                let offset = *[0, 4096, MIB - 1, MIB, u64::MAX, u64::MAX - 4095]
                    .choose(random)
                    .unwrap();
                let length = *[0, 1, 4096, 1 << 20, 32 << 20, (32 << 20) + 1, u32::MAX]
                    .choose(random)
                    .unwrap();
                // No writes with a payload: the volume's content is checked at the end.
                let command = *[0, 3, 5, 7, 8, 99].choose(random).unwrap();
                bytes.extend(request(command, random.random_range(0..64), offset, length));
            }
            3 => {
                let at = random.random_range(0..=bytes.len());
                bytes.truncate(at);
            }
            4 if !bytes.is_empty() => {
                let at = random.random_range(0..bytes.len());
                // Not into a command's low byte, which could make a read a trim.
                bytes[at & !7] ^= 1 << random.random_range(0..8);
            }
            _ => bytes.extend((0..random.random_range(0..200)).map(|_| random.random::<u8>())),
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_clients_harm_nobody() {
    let stage = file();
    stage.blank("vol-1", MIB).await;
    let device = stage.opened("vol-1").await;
    let served = Served::new(stage.directory.path(), std::sync::Arc::clone(&device));
    let seed = 0x5eed_0001;
    let mut random = StdRng::seed_from_u64(seed);
    for round in 0..1500 {
        let bytes = broken_session(&mut random);
        let mut stream = connected(&served.socket).await;
        // The server may end it before all is sent.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        assert!(ends(stream).await, "round {round} of seed {seed:#x} does not end");
        if round % 250 == 0 {
            assert_eq!(
                run("nbdinfo", &["--size", &served.uri()]).await.trim(),
                MIB.to_string()
            );
        }
    }
    let out = run("nbdinfo", &["--size", &served.uri()]).await;
    assert_eq!(out.trim(), MIB.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_end_the_connection_at_once() {
    let stage = file();
    stage.blank("vol-1", MIB).await;
    let device = stage.opened("vol-1").await;
    let served = Served::new(stage.directory.path(), std::sync::Arc::clone(&device));
    let mut bad_magic = into_transmission();
    bad_magic.extend([0; 28]);
    let mut huge_write = into_transmission();
    huge_write.extend(request(1, 0, 0, u32::MAX));
    let mut huge_option = 3u32.to_be_bytes().to_vec();
    huge_option.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    huge_option.extend_from_slice(&6u32.to_be_bytes());
    huge_option.extend_from_slice(&u32::MAX.to_be_bytes());
    let mut many_options = 3u32.to_be_bytes().to_vec();
    (0..200).for_each(|_| many_options.extend(option(3, &[])));
    let unknown_flags = 0xffu32.to_be_bytes().to_vec();
    let unknown_name = [3u32.to_be_bytes().to_vec(), option(1, b"other")].concat();
    for bytes in [
        bad_magic,
        huge_write,
        huge_option,
        many_options,
        unknown_flags,
        unknown_name,
    ] {
        let mut stream = connected(&served.socket).await;
        let _ = stream.write_all(&bytes).await;
        assert!(ends(stream).await);
    }
    // A write cut off in its payload is not done, not even in part.
    let mut stream = connected(&served.socket).await;
    let mut cut = into_transmission();
    cut.extend(request(1, 0, 0, 8192));
    cut.extend([9; 4096]);
    stream.write_all(&cut).await.unwrap();
    stream.shutdown().await.unwrap();
    assert!(ends(stream).await);
    assert!(
        device
            .read_at(0, 8192)
            .await
            .unwrap()
            .iter()
            .all(|byte| *byte == 0)
    );
    // A client that sends and never reads is not read from either, and the others are served.
    let mut deaf = connected(&served.socket).await;
    deaf.write_all(&into_transmission()).await.unwrap();
    let reads = request(0, 0, 0, 1 << 20).repeat(4096);
    let stuck = tokio::time::timeout(Duration::from_secs(2), deaf.write_all(&reads)).await;
    let _ = stuck;
    let out = run("nbdinfo", &["--size", &served.uri()]).await;
    assert_eq!(out.trim(), MIB.to_string());
    run(
        "qemu-io",
        &[
            "-f",
            "raw",
            "-c",
            "write -P 3 0 64k",
            "-c",
            "read -P 3 0 64k",
            &served.uri(),
        ],
    )
    .await;
    drop(deaf);
}
