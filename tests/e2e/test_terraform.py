"""Terraform with the stock AWS provider: apply, an empty second plan, destroy, nothing left."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

PROVIDER_MIRRORS = ["/opt/tf-plugins", "/usr/share/terraform/providers"]

CONFIG = """
terraform {
  required_providers { aws = { source = "hashicorp/aws" } }
}
provider "aws" {
  region                      = "%(region)s"
  skip_requesting_account_id  = false
  endpoints {
    ec2 = "%(endpoint)s"
    sts = "%(endpoint)s"
    iam = "%(endpoint)s"
  }
}
variable "image" {}
data "aws_vpc" "default" { default = true }
data "aws_subnets" "default" {
  filter {
    name   = "vpc-id"
    values = [data.aws_vpc.default.id]
  }
}
resource "aws_key_pair" "key" {
  key_name   = "terraform"
  public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJq6gEIjhq1kmG2HcH7uP0K7jqYQn2bGZ3wXoSxZ0x1Q test"
}
resource "aws_security_group" "web" {
  name        = "terraform-web"
  description = "web"
  vpc_id      = data.aws_vpc.default.id
  ingress {
    from_port   = 80
    to_port     = 80
    protocol    = "tcp"
    cidr_blocks = ["0.0.0.0/0"]
  }
  egress {
    from_port   = 0
    to_port     = 0
    protocol    = "-1"
    cidr_blocks = ["0.0.0.0/0"]
  }
  tags = { Name = "web" }
}
resource "aws_instance" "web" {
  ami                    = var.image
  instance_type          = "t3.micro"
  key_name               = aws_key_pair.key.key_name
  vpc_security_group_ids = [aws_security_group.web.id]
  user_data              = "#!/bin/sh\\necho terraform\\n"
  tags                   = { Name = "web" }
}
output "address" { value = aws_instance.web.public_ip }
"""


def mirror():
    for path in PROVIDER_MIRRORS:
        if pathlib.Path(path, "registry.terraform.io/hashicorp/aws").is_dir():
            return path
    return None


@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
@pytest.mark.skipif(mirror() is None, reason="no local mirror of the hashicorp/aws provider")
def test_an_instance_with_key_and_group(cloud, image, tmp_path):
    e = cloud.environment
    (tmp_path / "main.tf").write_text(CONFIG % {"endpoint": e["AWS_ENDPOINT_URL"], "region": e["AWS_REGION"]})
    rc = tmp_path / "terraformrc"
    rc.write_text('provider_installation { filesystem_mirror { path = "%s" } }' % mirror())
    environment = {
        **os.environ,
        **e,
        "TF_CLI_CONFIG_FILE": str(rc),
        "TF_VAR_image": image,
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
    }

    def terraform(*arguments, codes=(0,)):
        done = subprocess.run(
            ["terraform", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode in codes, f"terraform {arguments}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done

    terraform("init", "-no-color")
    try:
        terraform("apply", "-auto-approve", "-no-color")
        second = terraform("plan", "-detailed-exitcode", "-no-color", codes=(0, 2))
        assert second.returncode == 0, "the second plan is not empty:\n" + second.stdout
        address = json.loads(terraform("output", "-json").stdout)["address"]["value"]
        assert address, "the instance has no public address"
    finally:
        terraform("destroy", "-auto-approve", "-no-color")
    ec2 = cloud.client("ec2")
    assert ec2.describe_key_pairs()["KeyPairs"] == []
    groups = [g["GroupName"] for g in ec2.describe_security_groups()["SecurityGroups"]]
    assert groups == ["default"]
    live = [{"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}]
    assert ec2.describe_instances(Filters=live)["Reservations"] == []
    assert ec2.describe_volumes()["Volumes"] == []
