"""Images by `spx image`: a qcow2 import that boots, refusals, and a whole Debian with cloud-init."""

import subprocess

import conftest
import pytest
from conftest import wait_until
from test_guest import group, key, page, run, ssh, wait_state  # noqa: F401 (fixtures)


def test_a_qcow2_file_becomes_an_image_that_boots(cloud, ec2, image, group, tmp_path):  # noqa: F811
    raws = [p for p in (cloud.data / "pool").rglob("*") if p.is_file() and p.stat().st_size == 1 << 30]
    assert raws, "the tiny image is not in the pool"
    qcow2 = tmp_path / "tiny.qcow2"
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raws[0], qcow2], check=True)
    cloud.spx("image", "import", str(qcow2), "--name", "imported", "--boot-mode", "legacy-bios", "--no-progress")
    (found,) = ec2.describe_images(Filters=[{"Name": "name", "Values": ["imported"]}])["Images"]
    assert found["State"] == "available" and found["BootMode"] == "legacy-bios"
    instance = run(ec2, found["ImageId"], group)["InstanceId"]
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]
    wait_until(lambda: page(address) == "hello from user data\n", 120, "the page of the imported image")
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")


def refused(cloud, *arguments):
    done = subprocess.run(
        [conftest.SPX, "image", *arguments, "--no-progress", "--data", str(cloud.data)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    return done.stderr


def test_hostile_and_broken_files_are_refused(cloud, image, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 4096)
    backed = tmp_path / "backed.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", secret, "-F", "raw", backed], check=True)
    assert "backing" in refused(cloud, "import", str(backed)).lower()
    noise = tmp_path / "noise.raw"
    noise.write_bytes(b"no disk at all" * 1000)
    assert "not a disk image" in refused(cloud, "import", str(noise))
    assert "Duplicate" in refused(cloud, "build", "tiny", "--name", "tiny-test")
    left = list((cloud.data / "images").glob("*.raw"))
    assert left == [], left


@pytest.mark.slow
def test_debian_is_a_real_guest(cloud, ec2, key, group):  # noqa: F811
    """UEFI, cloud-init on our metadata service, SSH keys, host name, user data, root growth: emulated, it takes minutes."""
    cloud.spx("image", "build", "debian-12", "--name", "debian-test", "--no-progress")
    (image,) = ec2.describe_images(Filters=[{"Name": "name", "Values": ["debian-test"]}])["Images"]
    assert image["BootMode"] == "uefi"
    made = run(
        ec2,
        image["ImageId"],
        group,
        KeyName="e2e",
        InstanceType="t3.medium",
        UserData="#!/bin/sh\necho from-user-data > /var/tmp/mark\n",
        BlockDeviceMappings=[{"DeviceName": image["RootDeviceName"], "Ebs": {"VolumeSize": 5}}],
    )
    instance = made["InstanceId"]
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]

    def admin(*command):
        return subprocess.run(
            ["ssh", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
            + ["-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10", "-o", "BatchMode=yes", f"admin@{address}", *command],
            capture_output=True,
            text=True,
            timeout=120,
        )

    wait_until(lambda: admin("true").returncode == 0, 480, "ssh to Debian")
    wait_until(lambda: "done" in admin("cloud-init", "status").stdout, 300, "cloud-init")
    facts = admin("hostname; cat /var/tmp/mark; df --output=size -B1G / | tail -1; curl -s -m 5 http://169.254.169.254/ -o /dev/null -w '%{http_code}'")
    name, mark, size, version_1 = facts.stdout.split()
    assert name == made["PrivateDnsName"].split(".")[0]
    assert mark == "from-user-data"
    assert int(size) >= 4
    assert version_1 == "401", "version 1 of the metadata service is closed by default"
    ec2.stop_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "stopped", 400)
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")
