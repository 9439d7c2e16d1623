"""A cloud for the tests: started once a session in a directory of its own, ended with nothing left behind."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import boto3
import botocore.config
import pytest

SPX = os.environ.get("SPX", "spx")


def wait_until(check, seconds, what):
    """Calls `check` until it answers something true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"gave up after {seconds} s waiting for {what}"
        time.sleep(0.2)


class Cloud:
    """A running `spx up` on a data directory."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.data = self.root / "c"
        self.process = None
        self.environment = {}

    def up(self, extra_env=None):
        log = open(self.root / "spx.log", "ab")
        out = open(self.root / "spx.out", "wb")
        self.process = subprocess.Popen(
            [SPX, "up", "--data", str(self.data), "--api", "127.0.0.1:0"],
            stdout=out,
            stderr=log,
            env={**os.environ, **(extra_env or {})},
        )

        def ready():
            assert self.process.poll() is None, "spx up ended:\n" + self.log_tail()
            return b"ready" in (self.root / "spx.out").read_bytes()

        wait_until(ready, 120, "spx up")
        self.read_env()
        return self

    def read_env(self):
        mode = (self.data / "env").stat().st_mode & 0o777
        assert mode == 0o600, oct(mode)
        for line in (self.data / "env").read_text().splitlines():
            if line.startswith("export "):
                name, value = line.removeprefix("export ").split("=", 1)
                self.environment[name] = value.strip("'\"")

    def log_tail(self):
        return (self.root / "spx.log").read_text(errors="replace")[-6000:]

    def kill(self):
        """As a crash: no warning, no clean-up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """As an operator's restart: guests run on."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log_tail()

    def down(self):
        done = subprocess.run([SPX, "down", "--data", str(self.data)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr + self.log_tail()
        if self.process is not None:
            self.process.wait(30)

    def spx(self, *arguments):
        done = subprocess.run(
            [SPX, *arguments, "--data", str(self.data)], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"spx {arguments}: {done.stderr}\n{self.log_tail()}"
        return done.stdout

    def client(self, service, **overrides):
        e = self.environment
        return boto3.client(
            service,
            endpoint_url=e["AWS_ENDPOINT_URL"],
            region_name=overrides.get("region", e["AWS_REGION"]),
            verify=e["AWS_CA_BUNDLE"],
            aws_access_key_id=overrides.get("key", e["AWS_ACCESS_KEY_ID"]),
            aws_secret_access_key=overrides.get("secret", e["AWS_SECRET_ACCESS_KEY"]),
            config=botocore.config.Config(retries={"max_attempts": 0}, parameter_validation=False),
        )

    def aws(self, *arguments, check=True, raw=False):
        """The stock AWS CLI; answers parsed JSON."""
        done = subprocess.run(
            ["aws", *arguments, *([] if raw else ["--output", "json"])],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **self.environment, "AWS_PAGER": ""},
        )
        if check:
            assert done.returncode == 0, f"aws {arguments}: {done.stderr}"
            return done.stdout if raw else json.loads(done.stdout or "null")
        return done

    def children(self):
        """Processes of this cloud that outlive `spx up`: QEMU and exports, by their command lines."""
        found = []
        marks = [str(self.data)]
        if (self.data / "spx.toml").exists():
            marks.append(f"/run/spinifex/{self.tag()}/")
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue
                if any(mark in command for mark in marks) and " up " not in command:
                    found.append((int(entry.name), command))
        return found

    def qemus(self):
        return [pid for pid, command in self.children() if "qemu-system" in command]

    def tag(self):
        for line in (self.data / "spx.toml").read_text().splitlines():
            if line.startswith("tag = "):
                return line.split('"')[1]
        raise AssertionError("spx.toml has no tag")

    def kernel_objects(self):
        """Namespaces, links and nft tables that carry this cloud's tag."""
        tag = self.tag()
        out = []
        for command in (["ip", "netns"], ["ip", "-br", "link"], ["nft", "list", "tables"]):
            text = subprocess.run(command, capture_output=True, text=True).stdout
            out += [line for line in text.splitlines() if tag in line]
        return out


def make_cloud():
    return Cloud(tempfile.mkdtemp(prefix="spx-e2e-", dir="/tmp"))


def destroy(cloud):
    """Ends a cloud whatever state it is in, and removes its files."""
    try:
        # A signal to the whole group may be ending `spx up` at this moment; then the first try finds its lock held.
        for _ in range(3):
            if not (cloud.data / "state.redb").exists():
                break
            if subprocess.run([SPX, "down", "--data", str(cloud.data)], capture_output=True, timeout=300).returncode == 0:
                break
            time.sleep(1)
    finally:
        if cloud.process is not None and cloud.process.poll() is None:
            cloud.process.kill()
            cloud.process.wait()
        for pid, _ in cloud.children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        keep = os.environ.get("SPINIFEX_KEEP")
        if keep:
            print("kept", cloud.root)
        else:
            shutil.rmtree(cloud.root, ignore_errors=True)


@pytest.fixture(scope="session")
def cloud():
    cloud = make_cloud()
    try:
        cloud.up()
        yield cloud
        cloud.down()
        assert cloud.children() == [], "processes are left"
        assert cloud.kernel_objects() == [], "kernel objects are left"
    finally:
        destroy(cloud)


@pytest.fixture(scope="session")
def image(cloud):
    """The tiny image's id."""
    cloud.spx("image", "build", "tiny", "--name", "tiny-test", "--no-progress")
    images = cloud.aws("ec2", "describe-images", "--filters", "Name=name,Values=tiny-test")["Images"]
    assert len(images) == 1, images
    return images[0]["ImageId"]


@pytest.fixture(scope="session")
def ec2(cloud):
    return cloud.client("ec2")


@pytest.fixture(autouse=True)
def swept(request):
    """No test leaves instances to the next, also when it fails."""
    yield
    if "cloud" not in request.fixturenames:
        return
    cloud = request.getfixturevalue("cloud")
    if cloud.process is None or cloud.process.poll() is not None:
        cloud.up()
    ec2 = cloud.client("ec2")
    live = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped", "shutting-down"]}]

    def left():
        found = ec2.describe_instances(Filters=live)["Reservations"]
        return [i["InstanceId"] for r in found for i in r["Instances"]]

    if left():
        ec2.terminate_instances(InstanceIds=left())
        wait_until(lambda: not left(), 120, "the instances of the last test to go")
