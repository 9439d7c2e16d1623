"""Signs requests that are awkward to canonicalise with botocore and prints them as JSON, for tests.rs."""

import json
import sys
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET = sys.argv[1]
PLAIN = Credentials("AKIDEXAMPLE", SECRET)
SESSION = Credentials("AKIDEXAMPLE", SECRET, "FwoGZXIvYXdzEJr//////////wEaDToken+/=")
FORM = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}

# name, method, url, headers, body, service, auth class, credentials
CASES = [
    ("form", "POST", "https://localhost:9999/", FORM, "Action=GetCallerIdentity&Version=2011-06-15", "sts", SigV4Auth, PLAIN),
    ("session", "POST", "https://localhost:9999/", FORM, "Action=GetCallerIdentity", "sts", SigV4Auth, SESSION),
    ("blanks in headers", "POST", "https://localhost:9999/", {"X-Amz-Note": "  a   b  c "}, "x", "sts", SigV4Auth, PLAIN),
    ("json", "POST", "https://localhost:9999/", {"X-Amz-Target": "T.Op", "Content-Type": "application/x-amz-json-1.1"}, "{}", "ecs", SigV4Auth, PLAIN),
    ("path", "GET", "https://localhost:9999/2015-03-31/functions/arn%3Aaws%3Alambda/a%20b/", {}, "", "lambda", SigV4Auth, PLAIN),
    ("dots", "GET", "https://localhost:9999/a/./b/../c//d", {}, "", "lambda", SigV4Auth, PLAIN),
    ("query", "GET", "https://localhost:9999/?b=2&a=1&a=0&empty=&A=%2F%2B&t=a%20b&s=x~y", {}, "", "ec2", SigV4Auth, PLAIN),
    ("plus", "GET", "https://localhost:9999/?k=a+b&e=c=d", {}, "", "ec2", SigV4Auth, PLAIN),
    ("utf-8", "POST", "https://localhost:9999/?n=%C3%A4", FORM, "Name=\u00e4\u4e2d", "iam", SigV4Auth, PLAIN),
    ("presigned", "GET", "https://localhost:9999/?Action=GetCallerIdentity&Version=2011-06-15", {}, "", "sts", SigV4QueryAuth, PLAIN),
    ("presigned session", "GET", "https://localhost:9999/?Action=GetCallerIdentity", {}, "", "sts", SigV4QueryAuth, SESSION),
    ("presigned header", "GET", "https://localhost:9999/?Action=GetCallerIdentity", {"x-k8s-aws-id": "cluster"}, "", "sts", SigV4QueryAuth, PLAIN),
    ("s3", "PUT", "https://localhost:9999/bucket/a//b/%20c/../d", {}, "data", "s3", S3SigV4Auth, PLAIN),
    ("s3 presigned", "GET", "https://localhost:9999/bucket/key?versionId=x", {}, "", "s3", S3SigV4QueryAuth, PLAIN),
]

out = []
for name, method, url, headers, body, service, auth, credentials in CASES:
    request = AWSRequest(method=method, url=url, headers=dict(headers), data=body.encode())
    auth(credentials, service, "eu-central-1").add_auth(request)
    split = urlsplit(request.url)
    sent = [(key.lower(), value) for key, value in request.headers.items()]
    if not any(key == "host" for key, _ in sent):
        sent.append(("host", split.netloc))
    payload = request.headers.get("X-Amz-Content-SHA256")
    if auth is S3SigV4QueryAuth:
        payload = "UNSIGNED-PAYLOAD"
    out.append({
        "name": name, "method": method, "path": split.path, "query": split.query, "headers": sent,
        "body": body, "service": service, "payload": payload,
    })
print(json.dumps(out))
