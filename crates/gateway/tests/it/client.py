"""Runs one named case against a gateway and prints what the client saw, as JSON.

Environment: ENDPOINT, CA, KEY, SECRET, REGION. Arguments: names of cases below.
"""

import datetime
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

import boto3
import botocore.auth
from botocore import UNSIGNED
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

ENDPOINT, CA, KEY, SECRET, REGION = (os.environ[name] for name in ("ENDPOINT", "CA", "KEY", "SECRET", "REGION"))
NO_RETRY = {"total_max_attempts": 1}


def client(service, region=REGION, key=KEY, secret=SECRET, token=None, **config):
    return boto3.client(
        service, endpoint_url=ENDPOINT, verify=CA, region_name=region, aws_access_key_id=key,
        aws_secret_access_key=secret, aws_session_token=token, config=Config(retries=NO_RETRY, **config))


def outcome(call):
    try:
        answer = call()
        meta = answer.pop("ResponseMetadata")
        return {"status": meta["HTTPStatusCode"], "id": meta["RequestId"], "code": None, "answer": answer}
    except ClientError as error:
        meta = error.response["ResponseMetadata"]
        return {
            "status": meta["HTTPStatusCode"], "id": meta.get("RequestId"), "code": error.response["Error"]["Code"],
            "message": error.response["Error"].get("Message"), "type": error.response["Error"].get("Type"),
            "retry_after": meta["HTTPHeaders"].get("retry-after"),
        }


def send(method, url, headers, body=None):
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    context = ssl.create_default_context(cafile=CA)
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return {"status": answer.status, "body": answer.read().decode(), "id": answer.headers["x-amzn-requestid"]}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "body": error.read().decode(), "id": error.headers["x-amzn-requestid"]}


def signed(body, service="sts", mutate=None, headers=None):
    head = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", **(headers or {})}
    request = AWSRequest(method="POST", url=ENDPOINT + "/", headers=head, data=body)
    SigV4Auth(Credentials(KEY, SECRET), service, REGION).add_auth(request)
    if mutate:
        body = mutate(body)
    return send("POST", request.url, dict(request.headers), body)


def presigned(expires, age=0):
    shifted(-age)
    request = AWSRequest(method="GET", url=ENDPOINT + "/?Action=GetCallerIdentity&Version=2011-06-15")
    SigV4QueryAuth(Credentials(KEY, SECRET), "sts", REGION, expires=expires).add_auth(request)
    shifted(0)
    return request.url


REAL = botocore.auth.get_current_datetime


def shifted(seconds):
    botocore.auth.get_current_datetime = lambda *a, **k: REAL(*a, **k) + datetime.timedelta(seconds=seconds)


def skewed(service, call, seconds):
    shifted(seconds)
    try:
        return outcome(lambda: call(client(service)))
    finally:
        shifted(0)


WHO = b"Action=GetCallerIdentity&Version=2011-06-15"
BAD = "x" * 40
regions = lambda c: c.describe_regions()
who = lambda c: c.get_caller_identity()

CASES = {
    "who": lambda: outcome(lambda: who(client("sts"))),
    "who global": lambda: outcome(lambda: who(client("sts", region="us-east-1"))),
    "wrong region": lambda: outcome(lambda: who(client("sts", region="eu-west-1"))),
    "wrong region ec2": lambda: outcome(lambda: regions(client("ec2", region="us-east-1"))),
    "wrong secret": lambda: outcome(lambda: who(client("sts", secret=BAD))),
    "wrong secret ec2": lambda: outcome(lambda: regions(client("ec2", secret=BAD))),
    "unknown key": lambda: outcome(lambda: who(client("sts", key="AKIAIOSFODNN7EXAMPLE"))),
    "unknown key ec2": lambda: outcome(lambda: regions(client("ec2", key="AKIAIOSFODNN7EXAMPLE"))),
    "key with token": lambda: outcome(lambda: who(client("sts", token="surplus"))),
    "unsigned": lambda: outcome(lambda: who(client("sts", signature_version=UNSIGNED))),
    "unsigned ec2": lambda: outcome(lambda: regions(client("ec2", signature_version=UNSIGNED))),
    "late": lambda: skewed("sts", who, -3600),
    "early": lambda: skewed("sts", who, 3600),
    "late ec2": lambda: skewed("ec2", regions, -3600),
    "14 minutes": lambda: skewed("sts", who, -14 * 60),
    "presigned": lambda: send("GET", presigned(60), {}),
    "presigned ended": lambda: send("GET", presigned(60, age=120), {}),
    "presigned mutated": lambda: send("GET", presigned(60).replace("GetCaller", "GetFaller"), {}),
    "unbuilt": lambda: outcome(lambda: client("sts").assume_role(RoleArn="arn:aws:iam::000000000002:role/x", RoleSessionName="xx")),
    "unbuilt ec2": lambda: outcome(lambda: client("ec2").describe_spot_instance_requests()),
    "unbuilt iam": lambda: outcome(lambda: client("iam").list_users()),
    "unknown json service": lambda: outcome(lambda: client("dynamodb").list_tables()),
    "unknown action": lambda: signed(b"Action=NoSuchAction&Version=2011-06-15"),
    "no action": lambda: signed(b"Version=2011-06-15"),
    "unknown action ec2": lambda: signed(b"Action=NoSuchAction&Version=2016-11-15", "ec2"),
    "signed raw": lambda: signed(WHO),
    "mutated body": lambda: signed(WHO, mutate=lambda body: body[:-1] + b"6"),
    "claimed hash": lambda: signed(WHO, headers={"X-Amz-Content-SHA256": "0" * 64}),
    "huge body": lambda: signed(WHO + b"&x=" + b"y" * (11 * 1024 * 1024)),
    "huge header": lambda: signed(WHO, headers={"X-Amz-Filler": "z" * 17000}),
    "huge unsigned body": lambda: send("POST", ENDPOINT + "/", {}, b"y" * 70000),
    "sigv2": lambda: send("GET", ENDPOINT + "/?Action=GetCallerIdentity&AWSAccessKeyId=A&Signature=x&SignatureVersion=2", {}),
    "malformed": lambda: send("POST", ENDPOINT + "/", {"Authorization": "AWS4-HMAC-SHA256 Credential=x"}, WHO),
    "regions": lambda: outcome(lambda: regions(client("ec2"))),
    "regions dry": lambda: outcome(lambda: client("ec2").describe_regions(DryRun=True)),
    "panic": lambda: outcome(lambda: client("ec2").describe_vpcs()),
    "images": lambda: outcome(lambda: client("ec2").describe_images()),
}


def repeated(name, count):
    return [CASES[name]() for _ in range(count)]


def distinct_failures(count):
    made = [client("sts", secret=f"{n:040}") for n in range(count)]
    return [outcome(lambda c=c: who(c)) for c in made]


SERIES = {
    "eleven distinct failures": lambda: distinct_failures(11),
    "one failure repeated": lambda: [replay() for _ in range(30)],
    "60 launches": lambda: launches(60),
}


def launches(count):
    # One client, since making one takes longer than the bucket needs for a token.
    ec2 = client("ec2")
    return [outcome(lambda: ec2.run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1)) for _ in range(count)]


REPLAYED = None


def replay():
    global REPLAYED
    if REPLAYED is None:
        request = AWSRequest(method="POST", url=ENDPOINT + "/", headers={}, data=WHO)
        SigV4Auth(Credentials(KEY, BAD), "sts", REGION).add_auth(request)
        REPLAYED = dict(request.headers)
    return send("POST", ENDPOINT + "/", REPLAYED, WHO)


print(json.dumps({name: (CASES.get(name) or SERIES[name])() for name in sys.argv[1:]}))
