"""DescribeInstances with 1, 1 000 and 10 000 instances in the store, against `moto_server` with as many. Aim: 20 times its rate.

Both answer the same signed request, replayed by `wrk`, one after the other and in turns, so that a busy machine slows both. An answer has
every instance up to 1 000 (AWS's largest page); that it does, and that instances look the same to a client, is checked before each run. Ours is
asked over TLS and checks the signature; moto is asked in the clear and checks nothing. Ours is filled by the example `seed` of `compute`.
"""

import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
from peers import a_cloud, a_process, report, wait_until

COUNTS = [int(count) for count in os.environ.get("BENCH_COUNTS", "1,1000,10000").split(",")]
PAGE = 1000
# Of `seed`: one reservation has so many instances. moto cuts its pages by reservations, AWS and ours by instances.
PER_LAUNCH = 50
TURNS = int(os.environ.get("BENCH_TURNS", "3"))
# Seconds of a run. A page of 1 000 takes moto seconds, so that it needs longer for a few answers.
SECONDS = {"spinifex": 5, "moto": 5}
SECONDS_FULL_PAGE = {"spinifex": 5, "moto": 30}
# Requests at once, the same for both. moto answers one after the other.
CONNECTIONS = 4
CONNECTIONS_FULL_PAGE = 1
AIM = 20
SEED = os.environ.get("SEED", "seed")
HERE = pathlib.Path(__file__).resolve().parent


class Server:
    """One of the two peers: how to ask it."""

    def __init__(self, name, environment, max_results):
        self.name, self.environment, self.max_results = name, environment, max_results

    def client(self):
        e = self.environment
        return boto3.client(
            "ec2",
            endpoint_url=e["AWS_ENDPOINT_URL"],
            region_name=e["AWS_REGION"],
            verify=e.get("AWS_CA_BUNDLE"),
            aws_access_key_id=e["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=e["AWS_SECRET_ACCESS_KEY"],
            config=botocore.config.Config(read_timeout=300, retries={"max_attempts": 0}),
        )

    def check(self, count):
        """The answer has what it should have."""
        answer = self.client().describe_instances(MaxResults=self.max_results)
        instances = [one for reservation in answer["Reservations"] for one in reservation["Instances"]]
        assert len(instances) == min(count, PAGE), f"{self.name} answers {len(instances)} of {count}"
        assert bool(answer.get("NextToken")) == (count > PAGE), f"{self.name}: {answer.get('NextToken')}"
        for one in instances:
            assert one["State"]["Name"] == "running", one
            assert one["PublicIpAddress"] and one["PrivateIpAddress"] and one["BlockDeviceMappings"], one
            assert {tag["Key"] for tag in one["Tags"]} == {"Name", "Stage"}, one

    def measure(self, count, scratch):
        """One run of wrk."""
        full = count >= PAGE
        seconds = (SECONDS_FULL_PAGE if full else SECONDS)[self.name]
        connections = CONNECTIONS_FULL_PAGE if full else CONNECTIONS
        e = self.environment
        body = f"Action=DescribeInstances&Version=2016-11-15&MaxResults={self.max_results}"
        request = botocore.awsrequest.AWSRequest(
            method="POST",
            url=e["AWS_ENDPOINT_URL"] + "/",
            data=body,
            headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
        )
        credentials = botocore.credentials.Credentials(e["AWS_ACCESS_KEY_ID"], e["AWS_SECRET_ACCESS_KEY"])
        botocore.auth.SigV4Auth(credentials, "ec2", e["AWS_REGION"]).add_auth(request)
        lines = [f"{name}: {value}" for name, value in request.headers.items()]
        signed = scratch / "request"
        signed.write_text("\n".join([*lines, "", body]))
        wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=120s", "-s", str(HERE / "describe.lua")]
        done = subprocess.run(
            [*wrk, e["AWS_ENDPOINT_URL"] + "/"],
            env={**os.environ, "BENCH_REQUEST": str(signed)},
            capture_output=True,
            text=True,
            timeout=seconds + 60,
        )
        figures = json.loads(done.stdout.splitlines()[-1])
        assert figures["failed"] == 0 and figures["requests"] > 0, f"{self.name}: {done.stdout}"
        figures["rate"] = figures["requests"] / figures["seconds"]
        return figures


def moto_filled(port, count):
    """Fills a fresh moto, with what `seed` gives ours."""
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    server = Server("moto", environment, max(5, PAGE // PER_LAUNCH))
    ec2 = server.client()
    image = ec2.describe_images(Filters=[{"Name": "architecture", "Values": ["x86_64"]}])["Images"][0]["ImageId"]
    tags = [{"Key": "Name", "Value": "bench"}, {"Key": "Stage", "Value": "test"}]
    made = 0
    while made < count:
        batch = min(PER_LAUNCH, count - made)
        ec2.run_instances(
            ImageId=image,
            InstanceType="t3.micro",
            MinCount=batch,
            MaxCount=batch,
            NetworkInterfaces=[{"DeviceIndex": 0, "AssociatePublicIpAddress": True}],
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )
        made += batch
    return server


def seed(cloud, count):
    """Fills our store while no process has it. In memory: thousands of syncs would only test the disk."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="spx-seed-", dir="/dev/shm"))
    try:
        shutil.copy(cloud.data / "state.redb", scratch / "state.redb")
        subprocess.run([SEED, scratch / "state.redb", cloud.data / "keys", str(count)], check=True, timeout=900)
        shutil.copy(scratch / "state.redb", cloud.data / "state.redb")
    finally:
        shutil.rmtree(scratch)


def unlimited(cloud):
    """Rate limits off, as the operator would do it."""
    path = cloud.data / "spx.toml"
    text = path.read_text()
    assert "enabled = true" in text
    path.write_text(text.replace("enabled = true", "enabled = false"))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def compare(cloud, count, scratch):
    """Both servers with `count` instances, in turns."""
    seed(cloud, count)
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with a_process("moto_server", "-H", "127.0.0.1", "-p", port, **quiet):

        def answers():
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).status == 200
            except OSError:
                return False

        wait_until(answers, 60, "moto_server")
        moto = moto_filled(port, count)
        cloud.up()
        ours = Server("spinifex", cloud.environment, PAGE)
        ours.check(count)
        moto.check(count)
        runs = {server: [] for server in (ours, moto)}
        for _ in range(TURNS):
            for server in runs:
                runs[server].append(server.measure(count, scratch))
        cloud.stop()

    def median(server, key):
        return statistics.median(run[key] for run in runs[server])

    ratio = median(ours, "rate") / median(moto, "rate")
    figures = {"ratio of rates": f"{ratio:.1f} (aim {AIM}: {'met' if ratio >= AIM else 'missed'})"}
    for server in (ours, moto):
        rates = [run["rate"] for run in runs[server]]
        answers = sum(run["requests"] for run in runs[server])
        size = median(server, "bytes") / median(server, "requests")
        figures[server.name] = (
            f"{median(server, 'rate'):.2f} requests/s ({min(rates):.2f} to {max(rates):.2f}, n = {TURNS}), "
            f"p50 {median(server, 'p50_ms'):.1f} ms, p99 {median(server, 'p99_ms'):.1f} ms of {answers} answers of {size / 1024:.0f} KiB"
        )
    figures["ratio of p50"] = f"{median(moto, 'p50_ms') / median(ours, 'p50_ms'):.1f}"
    figures["ratio of p99"] = f"{median(moto, 'p99_ms') / median(ours, 'p99_ms'):.1f}"
    report(f"describe {count}", figures)


def main():
    with a_cloud() as cloud:
        cloud.up()
        cloud.stop()
        unlimited(cloud)
        for count in COUNTS:
            compare(cloud, count, cloud.root)
        cloud.up()
        cloud.down()


if __name__ == "__main__":
    main()
