"""Checks the signature of one recorded request with botocore, an implementation of SigV4 that is not the SDK's.

Reads JSON on standard input: method, url (as sent), headers, body (hex), access_key, secret_key, token, region. Prints `ok`, or what
differs, and exits accordingly.
"""

import json
import sys

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

told = json.load(sys.stdin)
headers = {name.lower(): value for name, value in told["headers"].items()}
scheme, _, fields = headers["authorization"].partition(" ")
assert scheme == "AWS4-HMAC-SHA256", scheme
fields = dict(part.strip().split("=", 1) for part in fields.split(","))
signed = fields["SignedHeaders"].split(";")
scope = fields["Credential"].split("/")
assert scope[0] == told["access_key"], scope
assert scope[1] == headers["x-amz-date"][:8], scope
assert scope[2:] == [told["region"], "bedrock", "aws4_request"], scope
for needed in ["host", "x-amz-date", "content-type"]:
    assert needed in signed, f"{needed} is not signed"

request = AWSRequest(
    method=told["method"],
    url=told["url"],
    headers={name: headers[name] for name in signed},
    data=bytes.fromhex(told["body"]),
)
request.context["timestamp"] = headers["x-amz-date"]
auth = SigV4Auth(Credentials(told["access_key"], told["secret_key"], told["token"]), "bedrock", told["region"])
canonical = auth.canonical_request(request)
signature = auth.signature(auth.string_to_sign(request, canonical), request)
if signature != fields["Signature"]:
    print(f"botocore signs {signature}, the request has {fields['Signature']}; botocore's canonical request:\n{canonical}")
    sys.exit(1)
print("ok")
