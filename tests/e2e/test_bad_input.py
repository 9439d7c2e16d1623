"""Bad input gets AWS's error and changes nothing: a table of calls with the code and status each must get.

Calls go through botocore with its own validation off, so that the service judges them; what botocore cannot say is sent as raw
signed or unsigned HTTP.
"""

import datetime
import re

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import botocore.exceptions
import pytest
import requests

GONE_INSTANCE = "i-0123456789abcdef0"
GONE_GROUP = "sg-0123456789abcdef0"

# (operation, parameters, code). "IMAGE" and "GROUP" stand for a real image and the default group.
EC2 = [
    # Ids that are malformed, or name nothing.
    ("describe_instances", dict(InstanceIds=["i-xyz"]), "InvalidInstanceID.Malformed"),
    ("describe_instances", dict(InstanceIds=["vol-0123456789abcdef0"]), "InvalidInstanceID.Malformed"),
    ("describe_instances", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("start_instances", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("stop_instances", dict(InstanceIds=["i-1"]), "InvalidInstanceID.Malformed"),
    ("stop_instances", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("reboot_instances", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("terminate_instances", dict(InstanceIds=["i-0123456789ABCDEF0"]), "InvalidInstanceID.Malformed"),
    ("terminate_instances", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("describe_instance_status", dict(InstanceIds=["x"]), "InvalidInstanceID.Malformed"),
    ("describe_instance_status", dict(InstanceIds=[GONE_INSTANCE]), "InvalidInstanceID.NotFound"),
    ("get_console_output", dict(InstanceId=GONE_INSTANCE), "InvalidInstanceID.NotFound"),
    ("get_console_output", dict(InstanceId="i-"), "InvalidInstanceID.Malformed"),
    ("describe_images", dict(ImageIds=["ami-xyz"]), "InvalidAMIID.Malformed"),
    ("describe_images", dict(ImageIds=["ami-0123456789abcdef0"]), "InvalidAMIID.NotFound"),
    ("describe_volumes", dict(VolumeIds=["vol-0123456789abcdef0"]), "InvalidVolume.NotFound"),
    ("describe_vpcs", dict(VpcIds=["vpc-xyz"]), "InvalidVpcID.Malformed"),
    ("describe_vpcs", dict(VpcIds=["vpc-0123456789abcdef0"]), "InvalidVpcID.NotFound"),
    ("describe_subnets", dict(SubnetIds=["subnet-0123456789abcdef0"]), "InvalidSubnetID.NotFound"),
    ("describe_subnets", dict(SubnetIds=["subnet-q"]), "InvalidSubnetID.Malformed"),
    ("describe_security_groups", dict(GroupIds=[GONE_GROUP]), "InvalidGroup.NotFound"),
    ("describe_security_groups", dict(GroupIds=["sg-q"]), "InvalidGroupId.Malformed"),
    ("describe_security_groups", dict(GroupNames=["no-such-group"]), "InvalidGroup.NotFound"),
    ("describe_security_group_rules", dict(SecurityGroupRuleIds=["sgr-0123456789abcdef0"]), "InvalidSecurityGroupRuleId.NotFound"),
    ("describe_network_interfaces", dict(NetworkInterfaceIds=["eni-0123456789abcdef0"]), "InvalidNetworkInterfaceID.NotFound"),
    ("describe_key_pairs", dict(KeyNames=["no-such-key"]), "InvalidKeyPair.NotFound"),
    ("describe_regions", dict(RegionNames=["mars-north-1"]), "InvalidParameterValue"),
    ("describe_availability_zones", dict(ZoneNames=["mars-north-1a"]), "InvalidParameterValue"),
    ("describe_instance_types", dict(InstanceTypes=["t9.huge"]), "InvalidInstanceType"),
    # Filters and pages.
    ("describe_instances", dict(Filters=[dict(Name="colour", Values=["x"])]), "InvalidParameterValue"),
    ("describe_images", dict(Filters=[dict(Name="nope", Values=["x"])]), "InvalidParameterValue"),
    ("describe_vpcs", dict(Filters=[dict(Name="tag:", Values=["x"])]), "InvalidParameterValue"),
    ("describe_volumes", dict(Filters=[dict(Name="nope", Values=["x"])]), "InvalidParameterValue"),
    ("describe_tags", dict(Filters=[dict(Name="nope", Values=["x"])]), "InvalidParameterValue"),
    ("describe_instances", dict(MaxResults=4), "InvalidParameterValue"),
    ("describe_instances", dict(MaxResults=1001), "InvalidParameterValue"),
    ("describe_instances", dict(MaxResults=5, InstanceIds=[GONE_INSTANCE]), "InvalidParameterCombination"),
    ("describe_instances", dict(NextToken="bm9uc2Vuc2U"), "InvalidParameterValue"),
    ("describe_security_groups", dict(MaxResults=1), "InvalidParameterValue"),
    # Launches.
    ("run_instances", dict(MinCount=1, MaxCount=1), "MissingParameter"),
    ("run_instances", dict(ImageId="IMAGE", MaxCount=1), "MissingParameter"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=2, MaxCount=1), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=0, MaxCount=1), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="ami-0123456789abcdef0", MinCount=1, MaxCount=1), "InvalidAMIID.NotFound"),
    ("run_instances", dict(ImageId="ami-x", MinCount=1, MaxCount=1), "InvalidAMIID.Malformed"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, InstanceType="t9.huge"), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, KeyName="no-such-key"), "InvalidKeyPair.NotFound"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, SubnetId="subnet-0123456789abcdef0"), "InvalidSubnetID.NotFound"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, SecurityGroupIds=[GONE_GROUP]), "InvalidGroup.NotFound"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, SecurityGroups=["no-such-group"]), "InvalidGroup.NotFound"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=900, MaxCount=1000, InstanceType="t3.micro"), "InsufficientInstanceCapacity"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, UserData="x" * 20000), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, UserData="x" * (1 << 20)), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, InstanceInitiatedShutdownBehavior="explode"), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, ClientToken="x" * 65), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, PrivateIpAddress="10.99.0.1"), "InvalidParameterValue"),
    ("run_instances", dict(ImageId="IMAGE", MinCount=1, MaxCount=1, Placement=dict(AvailabilityZone="mars-1a")), "InvalidParameterValue"),
    (
        "run_instances",
        dict(ImageId="IMAGE", MinCount=1, MaxCount=1, TagSpecifications=[dict(ResourceType="instance", Tags=[dict(Key="aws:x", Value="1")])]),
        "InvalidParameterValue",
    ),
    # Key pairs.
    ("create_key_pair", dict(), "MissingParameter"),
    ("create_key_pair", dict(KeyName="x" * 256), "InvalidParameterValue"),
    ("create_key_pair", dict(KeyName="x", KeyType="dsa"), "InvalidParameterValue"),
    ("import_key_pair", dict(KeyName="x", PublicKeyMaterial=b"not a key"), "InvalidKey.Format"),
    # Security groups.
    ("create_security_group", dict(GroupName="default", Description="x"), "InvalidGroup.Reserved"),
    ("create_security_group", dict(GroupName="sg-evil", Description="x"), "InvalidParameterValue"),
    ("create_security_group", dict(GroupName="x"), "MissingParameter"),
    ("create_security_group", dict(GroupName="x", Description="x", VpcId="vpc-0123456789abcdef0"), "InvalidVpcID.NotFound"),
    ("delete_security_group", dict(GroupId=GONE_GROUP), "InvalidGroup.NotFound"),
    ("delete_security_group", dict(GroupId="GROUP"), "CannotDelete"),
    (
        "authorize_security_group_ingress",
        dict(GroupId="GROUP", IpPermissions=[dict(IpProtocol="tcp", FromPort=22, ToPort=22, IpRanges=[dict(CidrIp="300.0.0.0/8")])]),
        "InvalidParameterValue",
    ),
    (
        "authorize_security_group_ingress",
        dict(GroupId="GROUP", IpPermissions=[dict(IpProtocol="tcp", FromPort=70000, ToPort=70001, IpRanges=[dict(CidrIp="0.0.0.0/0")])]),
        "InvalidParameterValue",
    ),
    (
        "authorize_security_group_ingress",
        dict(GroupId="GROUP", IpPermissions=[dict(IpProtocol="tcp", FromPort=22, ToPort=22, UserIdGroupPairs=[dict(GroupId=GONE_GROUP)])]),
        "InvalidGroup.NotFound",
    ),
    ("revoke_security_group_ingress", dict(GroupId="GROUP", SecurityGroupRuleIds=["sgr-0123456789abcdef0"]), "InvalidSecurityGroupRuleId.NotFound"),
    # Tags.
    ("create_tags", dict(Resources=[GONE_INSTANCE], Tags=[dict(Key="a", Value="b")]), "InvalidInstanceID.NotFound"),
    ("create_tags", dict(Resources=["GROUP"], Tags=[dict(Key="aws:a", Value="b")]), "InvalidParameterValue"),
    ("create_tags", dict(Resources=["GROUP"], Tags=[dict(Key="x" * 129, Value="b")]), "InvalidParameterValue"),
    ("create_tags", dict(Resources=["nonsense"], Tags=[dict(Key="a", Value="b")]), "InvalidID"),
    # Known to AWS, not built here.
    ("describe_transit_gateways", dict(), "NotImplemented"),
]


def fill(value, image, group):
    if isinstance(value, dict):
        return {k: fill(v, image, group) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, image, group) for v in value]
    return {"IMAGE": image, "GROUP": group}.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def default_group(ec2):
    return ec2.describe_security_groups(GroupNames=["default"])["SecurityGroups"][0]["GroupId"]


def everything(ec2):
    """What must not change."""
    return [
        ec2.describe_instances()["Reservations"],
        ec2.describe_security_group_rules()["SecurityGroupRules"],
        ec2.describe_security_groups()["SecurityGroups"],
        ec2.describe_key_pairs()["KeyPairs"],
        ec2.describe_volumes()["Volumes"],
        ec2.describe_network_interfaces()["NetworkInterfaces"],
        ec2.describe_tags()["Tags"],
    ]


def test_each_bad_call_gets_its_code_and_changes_nothing(ec2, image, default_group):
    assert len(EC2) >= 60
    before = everything(ec2)
    wrong = []
    for operation, parameters, code in EC2:
        try:
            getattr(ec2, operation)(**fill(parameters, image, default_group))
            wrong.append(f"{operation} {str(parameters)[:120]}: accepted, expected {code}")
        except botocore.exceptions.ClientError as error:
            got = error.response["Error"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            expected = {"InsufficientInstanceCapacity": 500, "NotImplemented": 501}.get(code, 400)
            if got["Code"] != code or status != expected or not got["Message"]:
                wrong.append(f"{operation} {str(parameters)[:120]}: {status} {got}, expected {expected} {code}")
    assert not wrong, "\n".join(wrong)
    assert everything(ec2) == before


# What a stock client would never send, as raw HTTP.


class Raw:
    def __init__(self, cloud):
        e = cloud.environment
        self.endpoint, self.region, self.ca = e["AWS_ENDPOINT_URL"], e["AWS_REGION"], e["AWS_CA_BUNDLE"]
        self.key, self.secret = e["AWS_ACCESS_KEY_ID"], e["AWS_SECRET_ACCESS_KEY"]

    def signed(self, body, service="ec2", key=None, secret=None, when=None, headers=None, region=None):
        request = botocore.awsrequest.AWSRequest(
            "POST",
            self.endpoint + "/",
            data=body,
            headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", **(headers or {})},
        )
        credentials = botocore.credentials.Credentials(key or self.key, secret or self.secret)
        auth = botocore.auth.SigV4Auth(credentials, service, region or self.region)
        if when is not None:
            auth_now = when.strftime("%Y%m%dT%H%M%SZ")
            original = auth._modify_request_before_signing

            def modify(request):
                request.context["timestamp"] = auth_now
                original(request)

            auth._modify_request_before_signing = modify
        auth.add_auth(request)
        return requests.post(self.endpoint + "/", data=body, headers=dict(request.headers), verify=self.ca, timeout=30)

    def plain(self, body="", method="POST", headers=None, path="/"):
        return requests.request(method, self.endpoint + path, data=body, headers=headers, verify=self.ca, timeout=30)


@pytest.fixture(scope="module")
def raw(cloud):
    return Raw(cloud)


def code_of(answer):
    assert answer.headers.get("x-amzn-RequestId"), answer.headers
    found = re.search(r"<Code>([^<]*)</Code>", answer.text)
    assert found, answer.text[:500]
    assert "<RequestID>" in answer.text or "<RequestId>" in answer.text, answer.text[:500]
    return answer.status_code, found.group(1)


NOW = datetime.datetime.now(datetime.timezone.utc)


@pytest.mark.parametrize(
    "send,expected",
    [
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15", secret="x" * 40), (401, "AuthFailure")),
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15", key="AKIAIOSFODNN7EXAMPLE"), (401, "AuthFailure")),
        (lambda r: r.signed("Action=GetCallerIdentity&Version=2011-06-15", service="sts", secret="x" * 40), (403, "SignatureDoesNotMatch")),
        (lambda r: r.signed("Action=GetCallerIdentity&Version=2011-06-15", service="sts", key="AKIAIOSFODNN7EXAMPLE"), (403, "InvalidClientTokenId")),
        (lambda r: r.signed("Action=DescribeNonsense&Version=2016-11-15"), (400, "InvalidAction")),
        (lambda r: r.signed("Version=2016-11-15"), (400, "MissingAction")),
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15&Colour=red"), (400, "UnknownParameter")),
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15&VpcId.2=vpc-12345678"), (400, "MalformedQueryString")),
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15&MaxResults=many"), (400, "InvalidParameterValue")),
        (lambda r: r.signed("Action=DescribeVpcs&Version=2016-11-15&DryRun=%zz"), (400, "MalformedQueryString")),
        (lambda r: r.plain("Action=DescribeVpcs&Version=2016-11-15"), (403, "MissingAuthenticationToken")),
    ],
    ids=[
        "wrong secret", "unknown key", "wrong secret at sts", "unknown key at sts", "unknown action", "no action",
        "unknown parameter", "list with a hole", "not a number", "broken percent-encoding", "unsigned",
    ],
)
def test_raw_requests(raw, send, expected):
    assert code_of(send(raw)) == expected


def test_clock_skew_is_told(raw):
    for minutes in (-20, 20):
        answer = raw.signed("Action=DescribeVpcs&Version=2016-11-15", when=NOW + datetime.timedelta(minutes=minutes))
        status, code = code_of(answer)
        assert (status, code) == (400, "RequestExpired"), answer.text


def test_a_huge_body_is_refused(raw):
    answer = raw.plain("Action=DescribeVpcs&x=" + "y" * (11 << 20))
    assert answer.status_code in (403, 413), answer.text


def test_dry_run_says_yes_and_does_nothing(ec2, image):
    before = ec2.describe_instances()["Reservations"]
    for operation, parameters in [
        ("run_instances", dict(ImageId=image, MinCount=1, MaxCount=1)),
        ("create_security_group", dict(GroupName="dry", Description="dry")),
        ("create_key_pair", dict(KeyName="dry")),
        ("describe_instances", dict()),
    ]:
        with pytest.raises(botocore.exceptions.ClientError) as raised:
            getattr(ec2, operation)(DryRun=True, **parameters)
        response = raised.value.response
        assert response["Error"]["Code"] == "DryRunOperation", (operation, response)
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert ec2.describe_instances()["Reservations"] == before
    assert "dry" not in [k["KeyName"] for k in ec2.describe_key_pairs()["KeyPairs"]]
