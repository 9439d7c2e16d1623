"""A real guest through stock clients: launch, page, ssh, power-off, stop and start, terminate."""

import http.client
import http.server
import ipaddress
import json
import re
import subprocess
import threading
import urllib.request

import pytest
from conftest import wait_until

USER_DATA = """#!/bin/sh
mkdir -p /www
echo "hello from user data" > /www/index.html
guest httpd --port 80 --dir /www &
"""


def instance_of(ec2, instance_id):
    return ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]


def wait_state(ec2, instance_id, state, seconds=120):
    wait_until(lambda: instance_of(ec2, instance_id)["State"]["Name"] == state, seconds, f"{instance_id} {state}")
    return instance_of(ec2, instance_id)


def page(address):
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=2) as answer:
            return answer.read().decode()
    except (OSError, http.client.HTTPException):
        # Nobody listens, or the guest went away in the middle of its answer.
        return None


@pytest.fixture(scope="module")
def key(cloud, ec2, tmp_path_factory):
    made = ec2.create_key_pair(KeyName="e2e", KeyType="ed25519")
    path = tmp_path_factory.mktemp("key") / "e2e.pem"
    path.write_text(made["KeyMaterial"])
    path.chmod(0o600)
    yield path
    ec2.delete_key_pair(KeyName="e2e")


@pytest.fixture(scope="module")
def group(ec2):
    group = ec2.create_security_group(GroupName="e2e", Description="ssh and web")["GroupId"]
    permissions = [
        {"IpProtocol": "tcp", "FromPort": p, "ToPort": p, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]} for p in (22, 80)
    ]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permissions)
    yield group
    wait_until(lambda: try_delete_group(ec2, group), 60, "the group to be unused")


def try_delete_group(ec2, group):
    try:
        ec2.delete_security_group(GroupId=group)
        return True
    except ec2.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "DependencyViolation", error
        return False


def run(ec2, image, group, **more):
    parameters = dict(
        ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1, SecurityGroupIds=[group], UserData=USER_DATA
    )
    parameters.update(more)
    return ec2.run_instances(**parameters)["Instances"][0]


def own_namespaces(cloud):
    """Taps and routes live in these, so with them everything of a network is gone."""
    listed = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[0] for line in listed if line.startswith(f"spx-{cloud.tag()}-")]


def ssh(key, address, *command):
    return subprocess.run(
        ["ssh", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        + ["-o", "ConnectTimeout=5", "-o", "BatchMode=yes", f"root@{address}", *command],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_guest_lives_and_dies(cloud, ec2, image, key, group):
    made = run(ec2, image, group, KeyName="e2e")
    instance = made["InstanceId"]
    assert made["State"]["Name"] == "pending"
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]
    wait_until(lambda: page(address) == "hello from user data\n", 120, "the guest's page")

    wait_until(lambda: ssh(key, address, "true").returncode == 0, 60, "ssh")
    metadata = ssh(
        key,
        address,
        "T=$(wget -q -O - --header 'x: y' http://169.254.169.254/latest/meta-data/instance-id 2>&1); echo \"$T\"; hostname",
    )
    # Version 1 is refused by default: the instance wants tokens.
    assert instance not in metadata.stdout, metadata.stdout

    token = ssh(key, address, "guest metadata /latest/meta-data/instance-id")
    assert token.stdout.strip() == instance, (token.stdout, token.stderr)

    console = wait_until(lambda: ec2.get_console_output(InstanceId=instance).get("Output"), 60, "console output")
    assert f"SPX-READY {instance}" in console, console[-2000:]

    ec2.reboot_instances(InstanceIds=[instance])
    wait_until(lambda: page(address) is None, 120, "the guest to go down for its reboot")
    wait_until(lambda: ssh(key, address, "true").returncode == 0, 180, "ssh after the reboot")
    assert instance_of(ec2, instance)["State"]["Name"] == "running"

    ec2.stop_instances(InstanceIds=[instance])
    stopped = wait_state(ec2, instance, "stopped")
    assert "PublicIpAddress" not in stopped
    assert stopped["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    ec2.start_instances(InstanceIds=[instance])
    started = wait_state(ec2, instance, "running")
    assert started["PrivateIpAddress"] == made["PrivateIpAddress"]
    address = started["PublicIpAddress"]
    wait_until(lambda: ssh(key, address, "true").returncode == 0, 180, "ssh after the start")

    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")
    volumes = ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [instance]}])["Volumes"]
    assert volumes == []
    assert cloud.children() == [], "a process is left"
    assert list((cloud.data / "guests").iterdir()) == [], "files of the guest are left"
    assert list((cloud.data / "pool" / "volumes").iterdir()) == [], "a volume is left"
    wait_until(lambda: own_namespaces(cloud) == [f"spx-{cloud.tag()}-edge"], 15, "the network's namespace to go")


@pytest.mark.parametrize(
    "behaviour,state", [("stop", "stopped"), ("terminate", "terminated")], ids=["stop", "terminate"]
)
def test_a_guest_that_powers_itself_off(ec2, image, key, group, behaviour, state):
    made = run(ec2, image, group, KeyName="e2e", InstanceInitiatedShutdownBehavior=behaviour)
    instance = made["InstanceId"]
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]
    wait_until(lambda: ssh(key, address, "true").returncode == 0, 120, "ssh")
    ssh(key, address, "poweroff")
    ended = wait_state(ec2, instance, state, 60)
    assert ended["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown", ended["StateReason"]
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")


def test_egress_leaves_with_the_public_address(cloud, ec2, image, key, group):
    """A guest reaches the host through its 1:1 translation; the host sees the instance's public address."""
    instance = run(ec2, image, group, KeyName="e2e")["InstanceId"]
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]
    wait_until(lambda: ssh(key, address, "true").returncode == 0, 120, "ssh")
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.client_address[0])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    pool = ipaddress.ip_network(re.search(r'^pool = "(.*)"', (cloud.data / "spx.toml").read_text(), re.M).group(1))
    host = str(pool.broadcast_address - 1)
    server = http.server.ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = ssh(key, address, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {host} {server.server_port} 2>&1 || true")
        assert seen == [address], (seen, done.stdout)
    finally:
        server.shutdown()
        server.server_close()
        ec2.terminate_instances(InstanceIds=[instance])
        wait_state(ec2, instance, "terminated")


def test_revoking_a_rule_closes_the_port(ec2, image, key, group):
    instance = run(ec2, image, group, KeyName="e2e")["InstanceId"]
    try:
        address = wait_state(ec2, instance, "running")["PublicIpAddress"]
        wait_until(lambda: page(address), 120, "the page")
        web = [{"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=web)
        wait_until(lambda: page(address) is None, 15, "the port to close")
        assert ssh(key, address, "true").returncode == 0, "the other rule is untouched"
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=web)
        wait_until(lambda: page(address), 15, "the port to open again")
    finally:
        ec2.terminate_instances(InstanceIds=[instance])
        wait_state(ec2, instance, "terminated")


def test_a_panic_is_seen_and_the_guest_is_left_alone(cloud, ec2, image, key, group):
    instance = run(ec2, image, group, KeyName="e2e")["InstanceId"]
    address = wait_state(ec2, instance, "running")["PublicIpAddress"]
    wait_until(lambda: ssh(key, address, "true").returncode == 0, 120, "ssh")

    def health():
        rows = json.loads(cloud.spx("get", "instances", "-o", "json"))
        return next(row["health"] for row in rows if row["instance"] == instance)

    def reachability():
        status = ec2.describe_instance_status(InstanceIds=[instance])["InstanceStatuses"]
        return status[0]["InstanceStatus"]["Status"]

    assert health() == "ok"
    try:
        ssh(key, address, "guest panic")
    except subprocess.TimeoutExpired:
        pass  # The connection dies with the kernel.
    wait_until(lambda: health() == "panicked", 15, "the panic to be seen")
    wait_until(lambda: reachability() == "impaired", 15, "the status to say so")
    assert instance_of(ec2, instance)["State"]["Name"] == "running"
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")


def test_a_dead_hypervisor_is_seen(cloud, ec2, image, group):
    instance = run(ec2, image, group)["InstanceId"]
    wait_state(ec2, instance, "running")
    (qemu,) = cloud.qemus()
    subprocess.run(["kill", "-9", str(qemu)], check=True)
    # Auto-recovery is AWS's default, so the guest is started again; or, were its crash budget spent, it is stopped.
    wait_until(lambda: qemu not in cloud.qemus(), 10, "the end of the process")
    wait_until(
        lambda: cloud.qemus() or instance_of(ec2, instance)["State"]["Name"] != "running", 30, "the dead guest to be seen"
    )
    ec2.terminate_instances(InstanceIds=[instance])
    wait_state(ec2, instance, "terminated")
