"""Restarts and crashes of `spx`: guests run on, are adopted, and nothing leaks."""

import os
import pathlib

import pytest
from conftest import destroy, make_cloud, wait_until
from test_guest import instance_of, wait_state

# Each step of a launch and of a termination, as `fault_point!` names them in the code. The binary under test is built with
# the feature `fault-points`; it aborts there as if it had been killed.
LAUNCH_POINTS = [
    "node/volume/applied",
    "node/launch/journalled",
    "node/volume/published",
    "node/launch/exported",
    "node/launch/networked",
    "node/launch/spawned",
    "node/launch/recorded",
    "node/launch/resumed",
]
TERMINATE_POINTS = [
    "node/end/ended",
    "node/volume/export-stopped",
    "node/end/released",
    "node/end/removed",
]


@pytest.fixture(scope="module")
def crash_cloud():
    if "SPX_FAULTS" not in os.environ:
        pytest.skip("SPX_FAULTS does not name a binary with fault points")
    import conftest

    plain, conftest.SPX = conftest.SPX, os.environ["SPX_FAULTS"]
    cloud = make_cloud()
    try:
        cloud.up()
        cloud.spx("image", "build", "tiny", "--name", "tiny-test", "--no-progress")
        yield cloud
        cloud.down()
        assert cloud.children() == [], "processes are left"
        assert cloud.kernel_objects() == [], "kernel objects are left"
    finally:
        destroy(cloud)
        conftest.SPX = plain


def image_of(cloud):
    return cloud.client("ec2").describe_images(Filters=[{"Name": "name", "Values": ["tiny-test"]}])["Images"][0]["ImageId"]


def launch(cloud):
    ec2 = cloud.client("ec2")
    made = ec2.run_instances(ImageId=image_of(cloud), InstanceType="t3.micro", MinCount=1, MaxCount=1)
    return made["Instances"][0]["InstanceId"]


def test_guests_survive_kill_and_are_adopted(cloud, image):
    ec2 = cloud.client("ec2")
    instance = launch_plain(cloud, image)
    wait_state(ec2, instance, "running")
    before = cloud.qemus()
    assert len(before) == 1
    cloud.kill()
    assert cloud.qemus() == before, "the guest died with the agent"
    cloud.up()
    ec2 = cloud.client("ec2")
    assert cloud.qemus() == before
    assert instance_of(ec2, instance)["State"]["Name"] == "running"
    cloud.stop()
    assert cloud.qemus() == before, "the guest died with an orderly restart"
    cloud.up()
    ec2 = cloud.client("ec2")
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")
    assert cloud.qemus() == []
    assert cloud.children() == []


def test_a_guest_that_died_while_nobody_looked_comes_back(cloud, image):
    """Auto-recovery is AWS's default: the intent was to run, so the guest is started again, with the same id and address."""
    ec2 = cloud.client("ec2")
    instance = launch_plain(cloud, image)
    before = wait_state(ec2, instance, "running")
    (qemu,) = cloud.qemus()
    cloud.kill()
    os.kill(qemu, 9)
    wait_until(lambda: cloud.qemus() == [], 10, "the end of QEMU")
    cloud.up()
    ec2 = cloud.client("ec2")
    (again,) = wait_until(cloud.qemus, 60, "the guest's new process")
    assert again != qemu
    after = wait_state(ec2, instance, "running")
    assert after["PrivateIpAddress"] == before["PrivateIpAddress"]
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")


def test_down_powers_guests_off_and_up_brings_them_back(cloud, image):
    """The host was drained, not the instance stopped: its intent is still to run."""
    ec2 = cloud.client("ec2")
    instance = launch_plain(cloud, image)
    before = wait_state(ec2, instance, "running")
    wait_until(lambda: "SPX-READY" in (ec2.get_console_output(InstanceId=instance).get("Output") or ""), 60, "the boot")
    cloud.down()
    assert cloud.children() == [] and cloud.kernel_objects() == []
    console = (cloud.data / "guests" / instance / "console.log").read_text(errors="replace")
    assert "powering off" in console, "the guest was not asked to power off"
    cloud.up()
    ec2 = cloud.client("ec2")
    wait_until(lambda: len(cloud.qemus()) == 1, 60, "the guest's process")
    after = wait_state(ec2, instance, "running")
    assert after["PrivateIpAddress"] == before["PrivateIpAddress"]
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")
    assert cloud.qemus() == []


def launch_plain(cloud, image):
    ec2 = cloud.client("ec2")
    made = ec2.run_instances(ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1)
    return made["Instances"][0]["InstanceId"]


@pytest.mark.parametrize("point", LAUNCH_POINTS)
def test_a_crash_at_each_step_of_a_launch(crash_cloud, point):
    cloud = crash_cloud
    cloud.stop()
    cloud.up({"SPX_CRASH_AT": point})
    instance = launch(cloud)
    assert cloud.process.wait(60) != 0, "it did not crash"
    cloud.up()
    ec2 = cloud.client("ec2")
    wait_state(ec2, instance, "running", 60)
    assert len(cloud.qemus()) == 1, cloud.children()
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated", 60)
    assert cloud.children() == []


@pytest.mark.parametrize("point", TERMINATE_POINTS)
def test_a_crash_at_each_step_of_a_termination(crash_cloud, point):
    cloud = crash_cloud
    cloud.stop()
    cloud.up({"SPX_CRASH_AT": point})
    instance = launch(cloud)
    ec2 = cloud.client("ec2")
    wait_state(ec2, instance, "running", 60)
    ec2.terminate_instances(InstanceIds=[instance])
    assert cloud.process.wait(60) != 0, "it did not crash"
    cloud.up()
    ec2 = cloud.client("ec2")
    wait_state(ec2, instance, "terminated", 60)
    assert cloud.children() == []
    assert not any((cloud.data / "guests").iterdir())
    assert not list(pathlib.Path(f"/run/spinifex/{cloud.tag()}/exports").iterdir())
