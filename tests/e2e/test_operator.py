"""What an operator sees: the contract of `spx up`, status and lists, open sockets, two clouds on one machine, clear refusals."""

import json
import os
import pathlib
import re
import struct
import subprocess

import conftest
import pytest
from conftest import destroy, make_cloud


def test_the_env_file_is_the_contract(cloud):
    names = set(cloud.environment)
    assert names == {"AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    identity = cloud.aws("sts", "get-caller-identity")
    assert identity["Account"] == "000000000002"
    assert identity["Arn"].startswith("arn:aws:iam::000000000002:user/")


def test_secrets_are_readable_by_their_owner_only(cloud):
    for path in [cloud.data / "env", *(cloud.data / "keys").iterdir(), *(cloud.data / "tls").glob("*key*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    secret = cloud.environment["AWS_SECRET_ACCESS_KEY"].encode()
    for path in cloud.data.rglob("*"):
        if path.is_file() and path.name != "env" and path.stat().st_size < 64 << 20:
            assert secret not in path.read_bytes(), f"the admin's secret is in {path}"
    assert secret.decode() not in cloud.log_tail()


def test_status_and_lists(cloud):
    status = json.loads(cloud.spx("status", "-o", "json"))
    assert status["endpoint"] == cloud.environment["AWS_ENDPOINT_URL"]
    assert status["pid"] == cloud.process.pid
    (node,) = json.loads(cloud.spx("get", "nodes", "-o", "json"))
    assert node["status"] == "Ready"
    reconcilers = json.loads(cloud.spx("get", "reconcilers", "-o", "json"))
    assert reconcilers, "no reconciler is registered"
    assert cloud.spx("get", "instances").splitlines()[0].startswith("INSTANCE")


def test_open_sockets_are_those_of_the_documentation(cloud):
    """docs/ports.md is the list; a listener that is not in it fails here."""
    pid = cloud.process.pid
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    listening = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[9] in inodes and (table.startswith("udp") or columns[3] == "0A"):
                listening.append((table, columns[1]))
    port = int(re.search(r":(\d+)$", cloud.environment["AWS_ENDPOINT_URL"]).group(1))
    assert listening == [("tcp", f"0100007F:{port:04X}")], listening


def test_two_clouds_side_by_side(cloud):
    other = make_cloud()
    try:
        other.up()
        assert other.environment["AWS_ENDPOINT_URL"] != cloud.environment["AWS_ENDPOINT_URL"]
        assert other.tag() != cloud.tag()
        mine, theirs = ((c.data / "spx.toml").read_text() for c in (cloud, other))
        pool = re.compile(r'^pool = "(.*)"', re.M)
        assert pool.search(mine).group(1) != pool.search(theirs).group(1)
        assert other.aws("sts", "get-caller-identity")["Account"] == "000000000002"
        # A key of one cloud is nothing to the other.
        refused = cloud.aws("sts", "get-caller-identity", check=False).returncode
        assert refused == 0
        crossed = subprocess.run(
            ["aws", "sts", "get-caller-identity"],
            env={**os.environ, **cloud.environment, "AWS_ACCESS_KEY_ID": other.environment["AWS_ACCESS_KEY_ID"]},
            capture_output=True,
            text=True,
        )
        assert "InvalidClientTokenId" in crossed.stderr, crossed.stderr
        other.down()
        assert other.children() == [] and other.kernel_objects() == []
        assert cloud.aws("sts", "get-caller-identity")["Account"] == "000000000002"
    finally:
        destroy(other)


def test_a_second_spx_on_the_same_directory_is_refused(cloud):
    done = subprocess.run(
        [conftest.SPX, "up", "--data", str(cloud.data), "--api", "127.0.0.1:0"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert str(cloud.process.pid) in done.stderr and "runs the cloud" in done.stderr, done.stderr


def test_missing_qemu_is_told_with_its_package(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    done = subprocess.run(
        [conftest.SPX, "up", "--data", str(tmp_path / "c"), "--api", "127.0.0.1:0"],
        env={**os.environ, "PATH": str(empty)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "qemu-system-x86" in done.stderr, done.stderr


def test_commands_without_a_cloud_say_what_to_do(tmp_path):
    done = subprocess.run([conftest.SPX, "status", "--data", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "spx up --data" in done.stderr, done.stderr
    done = subprocess.run([conftest.SPX, "down", "--data", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "holds no cloud" in done.stderr, done.stderr


def partition_table():
    """A boot sector with one Linux partition."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\0\2\0", 0x83, b"\0\0\0", 2048, 600_000)
    return bytes(446) + entry + bytes(48) + b"\x55\xaa"


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    """The pool on a file system that is too small for an image: the import fails clearly, nothing half-made stays."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "tmpfs", str(mount)], check=True)
    cloud = conftest.Cloud(mount)
    try:
        cloud.up()
        disk = tmp_path / "disk.raw"
        with open(disk, "wb") as file:
            for _ in range(300):
                file.write(os.urandom(1 << 20))
            file.truncate(1 << 30)
            # A partition table's signature, without which no import would begin.
            file.seek(0)
            file.write(partition_table())
        done = subprocess.run(
            [conftest.SPX, "image", "import", str(disk), "--name", "big", "--no-progress", "--data", str(cloud.data)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode != 0
        assert "space" in done.stderr.lower(), done.stderr
        assert cloud.aws("ec2", "describe-images", "--owners", "self")["Images"] == []
        left = [p for p in (cloud.data / "pool").rglob("*") if p.is_file() and p.stat().st_size > 1 << 20]
        left += list((cloud.data / "images").glob("*.raw"))
        assert left == [], left
        cloud.down()
    finally:
        destroy(cloud)
        subprocess.run(["umount", str(mount)], check=False)
