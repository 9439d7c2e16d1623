"""Every read of the foundation by a stock client: whole answers, pages that add up, filters that select, the CLI's own tables."""

import pytest

PAGED = {
    "describe_instance_types": ("InstanceTypes", "InstanceType", 5),
    "describe_instance_type_offerings": ("InstanceTypeOfferings", "InstanceType", 5),
    "describe_images": ("Images", "ImageId", 1),
    "describe_vpcs": ("Vpcs", "VpcId", 5),
    "describe_subnets": ("Subnets", "SubnetId", 5),
    "describe_security_groups": ("SecurityGroups", "GroupId", 5),
    "describe_security_group_rules": ("SecurityGroupRules", "SecurityGroupRuleId", 5),
    "describe_network_interfaces": ("NetworkInterfaces", "NetworkInterfaceId", 5),
    "describe_route_tables": ("RouteTables", "RouteTableId", 5),
    "describe_internet_gateways": ("InternetGateways", "InternetGatewayId", 5),
    "describe_network_acls": ("NetworkAcls", "NetworkAclId", 5),
    "describe_volumes": ("Volumes", "VolumeId", 5),
    "describe_instance_status": ("InstanceStatuses", "InstanceId", 5),
    "describe_tags": ("Tags", "Key", 5),
}


@pytest.fixture(scope="module")
def groups(ec2):
    """Enough groups for several pages."""
    made = [
        ec2.create_security_group(
            GroupName=f"page-{n}",
            Description="pages",
            TagSpecifications=[{"ResourceType": "security-group", "Tags": [{"Key": "n", "Value": str(n)}]}],
        )["GroupId"]
        for n in range(12)
    ]
    yield made
    for group in made:
        ec2.delete_security_group(GroupId=group)


@pytest.mark.parametrize("operation", PAGED)
def test_pages_add_up_to_the_whole(ec2, image, groups, operation):
    member, key, size = PAGED[operation]
    whole = [item[key] for item in getattr(ec2, operation)()[member]]
    paginator = ec2.get_paginator(operation)
    paged = [item[key] for page in paginator.paginate(PaginationConfig={"PageSize": size}) for item in page[member]]
    assert sorted(paged) == sorted(whole)
    if operation in ("describe_instance_types", "describe_security_groups", "describe_vpcs"):
        assert whole


def test_small_reads(cloud, ec2):
    regions = ec2.describe_regions()["Regions"]
    assert cloud.environment["AWS_REGION"] in [r["RegionName"] for r in regions]
    zones = ec2.describe_availability_zones()["AvailabilityZones"]
    assert [z["State"] for z in zones] == ["available"]
    attributes = {a["AttributeName"]: a for a in ec2.describe_account_attributes()["AccountAttributes"]}
    (vpc,) = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
    assert attributes["default-vpc"]["AttributeValues"] == [{"AttributeValue": vpc["VpcId"]}]
    assert vpc["CidrBlock"] == "172.31.0.0/16"
    assert ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute="enableDnsHostnames")["EnableDnsHostnames"]["Value"]
    (table,) = ec2.describe_route_tables(Filters=[{"Name": "association.main", "Values": ["true"]}])["RouteTables"]
    assert {"0.0.0.0/0", "172.31.0.0/16"} == {r["DestinationCidrBlock"] for r in table["Routes"]}
    assert ec2.describe_addresses()["Addresses"] == []


def test_filters_select(ec2, groups):
    def names(*filters):
        found = ec2.describe_security_groups(Filters=[{"Name": n, "Values": v} for n, v in filters])["SecurityGroups"]
        return sorted(g["GroupName"] for g in found)

    assert names(("group-name", ["page-1"])) == ["page-1"]
    assert names(("group-name", ["page-1*"])) == ["page-1", "page-10", "page-11"]
    assert names(("group-name", ["page-?"]), ("tag:n", ["2", "3"])) == ["page-2", "page-3"]
    assert names(("tag-key", ["n"]), ("group-name", ["page-1?"])) == ["page-10", "page-11"]
    assert names(("group-name", ["page-1"]), ("tag:n", ["2"])) == []


def test_the_cli_reads_everything(cloud, image):
    for command in [
        "describe-regions", "describe-availability-zones", "describe-account-attributes", "describe-images",
        "describe-key-pairs", "describe-vpcs", "describe-subnets", "describe-security-groups",
        "describe-security-group-rules", "describe-network-interfaces", "describe-instances", "describe-instance-status",
        "describe-volumes", "describe-tags", "describe-instance-type-offerings", "describe-addresses",
    ]:  # fmt: skip
        assert cloud.aws("ec2", command) is not None, command
    text = cloud.aws("ec2", "describe-vpcs", "--output", "table", raw=True)
    assert "DescribeVpcs" in text


def test_key_pairs_of_both_kinds(ec2, tmp_path):
    rsa = ec2.create_key_pair(KeyName="rsa", KeyType="rsa")
    assert rsa["KeyMaterial"].startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert len(rsa["KeyFingerprint"].split(":")) == 20
    ppk = ec2.create_key_pair(KeyName="ppk", KeyType="ed25519", KeyFormat="ppk")
    assert ppk["KeyMaterial"].startswith("PuTTY-User-Key-File-")
    shown = ec2.describe_key_pairs(KeyNames=["rsa"], IncludePublicKey=True)["KeyPairs"][0]
    assert shown["PublicKey"].startswith("ssh-rsa ") and shown["KeyFingerprint"] == rsa["KeyFingerprint"]
    imported = ec2.import_key_pair(KeyName="imported", PublicKeyMaterial=shown["PublicKey"].encode())
    assert len(imported["KeyFingerprint"].split(":")) == 16
    for name in ("rsa", "ppk", "imported", "never-was"):
        ec2.delete_key_pair(KeyName=name)
    assert ec2.describe_key_pairs()["KeyPairs"] == []


def test_tags_of_every_kind(ec2, image):
    (vpc,) = ec2.describe_vpcs()["Vpcs"]
    (subnet,) = ec2.describe_subnets()["Subnets"]
    resources = [vpc["VpcId"], subnet["SubnetId"]]
    ec2.create_tags(Resources=resources, Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}])
    found = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": resources}])["Tags"]
    assert {(t["ResourceId"], t["Key"], t["Value"]) for t in found} == {
        (r, k, v) for r in resources for k, v in (("a", "1"), ("b", ""))
    }
    assert {"Key": "a", "Value": "1"} in ec2.describe_vpcs()["Vpcs"][0]["Tags"]
    ec2.delete_tags(Resources=resources, Tags=[{"Key": "a", "Value": "2"}, {"Key": "b"}])
    left = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": resources}])["Tags"]
    assert {t["Key"] for t in left} == {"a"}, "a tag with another value stays"
    ec2.delete_tags(Resources=resources, Tags=[{"Key": "a"}])
