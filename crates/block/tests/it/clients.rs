//! Real NBD clients: nbdinfo, nbdcopy, qemu-img, qemu-io and libnbd's Python binding.

use std::sync::Arc;

use bytes::Bytes;

use crate::stage::{MIB, Served, Stage, file, memory, run};

const PYTHON: &str = "/usr/bin/python3";

async fn served(stage: &Stage, bytes: u64) -> (Served, Arc<dyn block::device::BlockDevice>) {
    stage.blank("vol-1", bytes).await;
    let device = stage.opened("vol-1").await;
    (Served::new(stage.directory.path(), Arc::clone(&device)), device)
}

/// Runs a script with `h`, a connected handle of libnbd, unless `connect` is done by the script.
async fn python(served: &Served, script: &str) -> String {
    let head = format!("import nbd\nSOCKET = {:?}\n", served.socket.display().to_string());
    run(PYTHON, &["-c", &(head + script)]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdinfo_shows_what_is_offered() {
    let stage = file();
    let (served, _device) = served(&stage, 16 * MIB).await;
    let out = run("nbdinfo", &["--json", &served.uri()]).await;
    let info: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], 16 * MIB);
    assert_eq!(export["contexts"][0], "base:allocation");
    for offered in [
        "can_cache",
        "can_df",
        "can_fast_zero",
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
    ] {
        assert_eq!(export[offered], true, "{offered}");
    }
    assert_eq!(export["is_read_only"], false);
    assert_eq!(export["block_size_minimum"], 1);
    assert_eq!(export["block_size_preferred"], 4096);
    assert_eq!(export["block_size_maximum"], 32 << 20);
    let list = run("nbdinfo", &["--list", "--json", &served.uri()]).await;
    assert!(list.contains("\"export-name\": \"\""), "{list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nbdcopy_and_qemu_img_carry_an_image_there_and_back() {
    for stage in [memory(), file()] {
        let (served, device) = served(&stage, 32 * MIB).await;
        let path = |name: &str| stage.directory.path().join(name).display().to_string();
        let mut image = vec![0u8; 32 << 20];
        for (place, byte) in image
            .iter_mut()
            .enumerate()
            .filter(|(place, _)| (place >> 20) % 3 == 0)
        {
            *byte = (place % 251) as u8;
        }
        std::fs::write(path("in.raw"), &image).unwrap();
        run(
            "nbdcopy",
            &["--flush", "--connections=4", &path("in.raw"), &served.uri()],
        )
        .await;
        run("nbdcopy", &["--connections=4", &served.uri(), &path("out.raw")]).await;
        assert!(
            std::fs::read(path("out.raw")).unwrap() == image,
            "nbdcopy brought back other bytes"
        );
        run(
            "qemu-img",
            &[
                "compare",
                "-f",
                "raw",
                "-F",
                "raw",
                &path("in.raw"),
                &served.uri(),
            ],
        )
        .await;
        run(
            "qemu-img",
            &[
                "convert",
                "-f",
                "raw",
                "-O",
                "qcow2",
                &served.uri(),
                &path("out.qcow2"),
            ],
        )
        .await;
        run(
            "qemu-img",
            &[
                "compare",
                "-f",
                "raw",
                "-F",
                "qcow2",
                &path("in.raw"),
                &path("out.qcow2"),
            ],
        )
        .await;
        // Zero all of it through QEMU: nothing stays allocated.
        run(
            "qemu-io",
            &[
                "-f",
                "raw",
                "-c",
                "write -z -u 0 32M",
                "-c",
                "flush",
                &served.uri(),
            ],
        )
        .await;
        let map = run("qemu-img", &["map", "-f", "raw", "--output=json", &served.uri()]).await;
        let map: serde_json::Value = serde_json::from_str(&map).unwrap();
        assert_eq!(
            (map[0]["length"].as_u64(), map[0]["zero"].as_bool()),
            (Some(32 * MIB), Some(true))
        );
        // An image put in by QEMU with -n, over what was there.
        run(
            "qemu-img",
            &[
                "convert",
                "-n",
                "-f",
                "qcow2",
                "-O",
                "raw",
                &path("out.qcow2"),
                &served.uri(),
            ],
        )
        .await;
        for piece in 0..32u64 {
            let read = device.read_at(piece * MIB, 1 << 20).await.unwrap();
            let from = (piece << 20) as usize;
            assert!(read[..] == image[from..from + (1 << 20)], "piece {piece}");
        }
        stage.put_away("vol-1", device).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libnbd_exercises_every_command() {
    for stage in [memory(), file()] {
        let (served, _device) = served(&stage, 8 * MIB).await;
        let out = python(
            &served,
            r#"
h = nbd.NBD()
h.add_meta_context("base:allocation")
h.set_strict_mode(0)
h.connect_unix(SOCKET)
M = 1 << 20
h.pwrite(b"a" * 4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 0) == b"\0" * 4096 + b"a" * 4096
assert h.pread(3, 4095) == b"\0aa"
h.pwrite(b"zz", 4095)
assert h.pread(4, 4094) == b"\0zza"
h.flush()
chunks = []
def chunk(data, offset, status, error):
    chunks.append((offset, len(data), status))
h.pread_structured(2 * M, 0, chunk)
assert sum(c[1] for c in chunks if c[2] == nbd.READ_DATA) + sum(c[1] for c in chunks if c[2] == nbd.READ_HOLE) >= 8192
assert any(c[2] == nbd.READ_HOLE for c in chunks), chunks
chunks.clear()
h.pread_structured(2 * M, 0, chunk, nbd.CMD_FLAG_DF)
assert [c[1:] for c in chunks] == [(2 * M, nbd.READ_DATA)], chunks
def extents(length, offset, flags=0):
    found = []
    h.block_status(length, offset, lambda context, at, entries, error: found.extend(entries), flags)
    return list(zip(found[0::2], found[1::2]))
e = extents(8 * M, 0)
assert sum(x[0] for x in e) == 8 * M, e
assert any(x[1] == 0 for x in e) and any(x[1] == 3 for x in e), e
assert len(extents(8 * M, 0, nbd.CMD_FLAG_REQ_ONE)) == 1
h.pwrite(b"b" * M, 2 * M)
h.trim(M, 2 * M)
assert h.pread(M, 2 * M) == b"\0" * M
h.pwrite(b"c" * M, 2 * M)
h.zero(M // 2, 2 * M, nbd.CMD_FLAG_FUA)
h.zero(M // 4, 2 * M + M // 2, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(M, 2 * M) == b"\0" * (3 * M // 4) + b"c" * (M // 4)
h.zero(1, 3 * M - 2, nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(3, 3 * M - 3) == b"c\0c"
h.cache(M, 0)
# What must be refused, with the connection staying.
def refused(errno, call, *args):
    try:
        call(*args)
    except nbd.Error as error:
        assert error.errno == errno, (error.errno, errno, args[:2])
    else:
        raise AssertionError("not refused: %r" % (args[1:],))
refused("EINVAL", h.pread, 1, 8 * M)
refused("EINVAL", h.pread, 4096, 8 * M - 1)
refused("EINVAL", h.pwrite, b"xx", 8 * M - 1)
refused("EINVAL", h.trim, 4096, 8 * M)
refused("EINVAL", h.zero, 8 * M, 1)
refused("EINVAL", h.pread, 1, (1 << 63) + 5)
refused("EINVAL", h.pwrite, b"x", 0, nbd.CMD_FLAG_NO_HOLE)
refused("EINVAL", h.pwrite, b"x", 0, 1 << 10)
assert h.pread(4, 4094) == b"\0zza"
h.shutdown()
# Simple replies, the old way in.
h = nbd.NBD()
h.set_request_structured_replies(False)
h.set_opt_mode(True)
h.connect_unix(SOCKET)
names = []
h.opt_list(lambda name, description: names.append(name))
assert names == [""], names
h.opt_info()
assert h.get_size() == 8 * M
h.set_export_name("nothing")
try:
    h.opt_go()
except nbd.Error as error:
    pass
else:
    raise AssertionError("an unknown export was opened")
h.set_export_name("")
h.opt_go()
assert h.pread(8192, 4096)[:4096] == b"z" + b"a" * 4095
refused("EINVAL", h.pread, 1, 8 * M)
h.shutdown()
h = nbd.NBD()
h.set_handshake_flags(0)
h.connect_unix(SOCKET)
assert h.pread(2, 4095) == b"zz"
h.shutdown()
print("done")
"#,
        )
        .await;
        assert_eq!(out.trim(), "done");
    }
}

/// Many requests in flight on many connections; a flush on one covers the writes of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn libnbd_many_in_flight_on_many_connections() {
    let stage = file();
    let (served, device) = served(&stage, 32 * MIB).await;
    let out = python(
        &served,
        r#"
import random
M = 1 << 20
handles = []
for n in range(4):
    h = nbd.NBD()
    h.connect_unix(SOCKET)
    handles.append(h)
# Each connection owns every fourth block; 3 rounds, 64 writes in flight each.
for round in range(3):
    cookies = []
    for block in range(2048):
        h = handles[block % 4]
        buffer = nbd.Buffer.from_bytearray(bytearray([1 + (block + round) % 255]) * 4096)
        cookies.append((h, h.aio_pwrite(buffer, block * 4096)))
        while h.aio_in_flight() >= 64:
            h.poll(-1)
    for h in handles:
        while h.aio_in_flight() > 0:
            h.poll(-1)
    for h, cookie in cookies:
        assert h.aio_command_completed(cookie)
    handles[round].flush()
    for block in random.sample(range(2048), 64):
        assert handles[(block + 1) % 4].pread(4096, block * 4096) == bytes([1 + (block + round) % 255]) * 4096
# The largest request, several at once.
big = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([7]) * (32 * M)), 0) for h in handles]
for h in handles:
    while h.aio_in_flight() > 0:
        h.poll(-1)
for h, cookie in zip(handles, big):
    assert h.aio_command_completed(cookie)
assert handles[0].pread(32 * M, 0) == b"\7" * (32 * M)
for h in handles:
    h.shutdown()
print("done")
"#,
    )
    .await;
    assert_eq!(out.trim(), "done");
    assert_eq!(device.read_at(12345, 1).await.unwrap()[0], 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_export_refuses_writes() {
    let stage = file();
    stage.blank("vol-1", MIB).await;
    let request = block::provider::PublishVolume {
        read_only: true,
        ..crate::stage::publish(&crate::stage::volume("vol-1"))
    };
    let publication = stage.provider.publish_volume(request).await.unwrap();
    let device = stage
        .provider
        .open_volume(crate::stage::open(&publication))
        .await
        .unwrap();
    let served = Served::new(stage.directory.path(), device);
    let out = run("nbdinfo", &["--json", &served.uri()]).await;
    let info: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["exports"][0]["is_read_only"], true);
    let out = python(
        &served,
        r#"
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_unix(SOCKET)
for call in (lambda: h.pwrite(b"x", 0), lambda: h.trim(4096, 0), lambda: h.zero(1, 0)):
    try:
        call()
    except nbd.Error as error:
        assert error.errno == "EPERM", error.errno
    else:
        raise AssertionError("a write was taken")
assert h.pread(1, 0) == b"\0"
print("done")
"#,
    )
    .await;
    assert_eq!(out.trim(), "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_answers_eshutdown_after_finishing_what_was_admitted() {
    let stage = file();
    stage.blank("vol-1", MIB).await;
    let device = stage.opened("vol-1").await;
    let socket = stage.directory.path().join("drain.sock");
    let server = block::nbd::NbdServer::new(Arc::clone(&device));
    let listener = block::nbd::listen(&socket).unwrap();
    let accepting = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener).await }
    });
    device
        .write_at(0, Bytes::from_static(b"kept"), false)
        .await
        .unwrap();
    server.drain().await.unwrap();
    let script = format!(
        r#"
import nbd
h = nbd.NBD()
try:
    h.connect_unix({:?})
    h.pread(1, 0)
except nbd.Error as error:
    print(error.errno)
"#,
        socket.display().to_string()
    );
    let out = run(PYTHON, &["-c", &script]).await;
    assert_eq!(out.trim(), "ESHUTDOWN");
    accepting.abort();
}
