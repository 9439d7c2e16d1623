"""The other end of the wire: AWS's own client library, driven by the Rust test beside this file.

Reads one JSON request a line from stdin and answers one JSON line each:
  {"do": "samples", "service", "operation"}  -> requests as botocore serialises them, and outputs to encode
  {"do": "requests", "service"}              -> a request for every operation of the whole model, required members only
  {"do": "parse", "service", "operation", "status", "headers", "body"}  -> what botocore makes of an answer
  {"do": "parse_error", ..., "error"}        -> what botocore makes of an error (`error` names its shape, if any)

Values cross in a canonical JSON: structures by member name, times as {"$time": milliseconds since 1970}, bytes as
{"$blob": base64}. Nothing is mocked: serialisers, parsers and models are those of the installed botocore.
"""

import base64
import datetime
import io
import json
import sys

import botocore
import botocore.loaders
import botocore.model
from botocore.awsrequest import create_request_object, prepare_request_dict
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

BODY_TEXT = "é&<>\"'%+=;/?#\\ \U0001f980 "
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
# Without botocore's own additions to the models, which change types for the convenience of Python programs only.
LOADER = botocore.loaders.Loader(include_default_extras=False)
MODELS = {}


def service_model(name):
    if name not in MODELS:
        MODELS[name] = botocore.model.ServiceModel(LOADER.load_service_model(name, "service-2"), name)
    return MODELS[name]


def bounded(shape, wanted):
    low, high = shape.metadata.get("min", wanted), shape.metadata.get("max", max(wanted, shape.metadata.get("min", wanted)))
    return min(max(wanted, low), high)


def always_there(shape):
    """True for members that HTTP or botocore fill in by themselves."""
    location, name = shape.serialization.get("location"), shape.serialization.get("name")
    return location in ("statusCode", "headers") or name == "Content-Length"


class Sampler:
    """Makes a value for any shape. `variant`: full, minimal (required members only), odd (awkward text, other ends)."""

    def __init__(self, variant, is_output, query):
        self.variant = variant
        self.is_output = is_output
        self.query = query
        self.counter = 0
        self.open = []

    def sample(self, shape):
        self.counter += 1
        return getattr(self, "sample_" + shape.type_name)(shape)

    def sample_structure(self, shape):
        members = shape.members
        names = list(members)
        if shape.is_tagged_union:
            names = [name for name in names if self.fits(members[name])][:1]
        elif self.variant == "minimal" or self.open.count(shape.name) > 0:
            raw_body = shape.serialization.get("payload") if self.is_output and not self.open else None
            names = [
                name
                for name in names
                if name in shape.required_members
                or always_there(members[name])
                # A body that is one member is there, if only with no bytes.
                or (name == raw_body and members[name].type_name == "blob")
            ]
            if self.query and self.open and not names:
                # A structure without members leaves no trace in a form.
                names = list(members)[:1]
        self.open.append(shape.name)
        value = {name: self.sample(members[name]) for name in names if self.fits(members[name])}
        self.open.pop()
        return value

    def fits(self, shape):
        """False where one more level of a recursive shape would not end."""
        while shape.type_name in ("list", "map"):
            shape = shape.member if shape.type_name == "list" else shape.value
        return self.open.count(shape.name) < 2

    def sample_list(self, shape):
        count = 1 if self.variant == "odd" else 2
        count = max(count, shape.metadata.get("min", 0))
        count = min(count, shape.metadata.get("max", count))
        return [self.sample(shape.member) for _ in range(count)]

    def sample_map(self, shape):
        if shape.serialization.get("location") == "headers":
            return {"first": "one", "second-key": "two, and three"}
        keys = shape.key.enum[:2] if getattr(shape.key, "enum", None) else None
        keys = keys or [self.sample(shape.key) for _ in range(2)]
        return {key: self.sample(shape.value) for key in keys}

    def sample_string(self, shape):
        if shape.enum:
            return shape.enum[-1 if self.variant == "odd" else 0]
        text = f"{shape.name}-{self.counter}"
        location = shape.serialization.get("location")
        if self.variant == "odd":
            if location in ("header", "headers"):
                text += "\"'%+=;/?"
            elif location == "uri":
                text += "&<>\"'%+=;/?# é"
            else:
                text += BODY_TEXT
                if self.is_output:
                    text += "\r\n\t."
        low, high = shape.metadata.get("min", 0), shape.metadata.get("max", 1 << 30)
        return text.ljust(low, "x")[-high:] if high < len(text) else text.ljust(low, "x")

    sample_character = sample_string

    def whole(self, shape, wanted):
        if shape.serialization.get("location") == "statusCode":
            return 202
        return int(bounded(shape, wanted))

    def sample_integer(self, shape):
        return self.whole(shape, -5 if self.variant == "odd" else 1000 + self.counter)

    def sample_long(self, shape):
        return self.whole(shape, -(2**53) - 1 if self.variant == "odd" else 2**40 + self.counter)

    def sample_double(self, shape):
        wanted = -1.25e-7 if self.variant == "odd" else 0.5 + self.counter
        return float(bounded(shape, wanted))

    sample_float = sample_double

    def sample_boolean(self, shape):
        return self.variant != "odd"

    def sample_blob(self, shape):
        return b"\x00\xff<&" + str(self.counter).encode()

    def sample_timestamp(self, shape):
        time = datetime.datetime(2026, 11, 30, 12, 34, 56, tzinfo=datetime.timezone.utc)
        time += datetime.timedelta(seconds=self.counter)
        whole = shape.serialization.get("location") == "header" or shape.serialization.get("timestampFormat") == "rfc822"
        # botocore sends whole seconds only, but reads fractions.
        return time if whole or not self.is_output else time + datetime.timedelta(milliseconds=789)


def canonical(value, query):
    if isinstance(value, dict):
        items = {key: canonical(item, query) for key, item in value.items()}
        return {key: item for key, item in items.items() if not (query and item in ([], {}) and item != {"$": 0})}
    if isinstance(value, list):
        return [canonical(item, query) for item in value]
    if isinstance(value, datetime.datetime):
        return {"$time": round((value - EPOCH) / datetime.timedelta(milliseconds=1))}
    if isinstance(value, (bytes, bytearray)):
        return {"$blob": base64.b64encode(value).decode()}
    if hasattr(value, "read"):
        return {"$blob": base64.b64encode(value.read()).decode()}
    return value


def samples(request):
    service = service_model(request["service"])
    operation = service.operation_model(request["operation"])
    protocol = service.resolved_protocol
    query = protocol in ("ec2", "query")
    serializer = create_serializer(protocol, include_validation=True)
    inputs, outputs = [], []
    for variant in ("full", "minimal", "odd"):
        parameters = {}
        if operation.input_shape is not None:
            parameters = Sampler(variant, False, query).sample(operation.input_shape)
        message = prepared(serializer.serialize_to_request(parameters, operation))
        inputs.append({"variant": variant, "canonical": canonical(parameters, query), **message})
        if operation.output_shape is not None:
            value = Sampler(variant, True, query).sample(operation.output_shape)
            outputs.append({"variant": variant, "canonical": canonical(value, query)})
    return {"inputs": inputs, "outputs": outputs}


def prepared(serialized):
    prepare_request_dict(serialized, "http://localhost")
    message = create_request_object(serialized).prepare()
    body = message.body if message.body is not None else b""
    return {
        "method": message.method,
        "url": message.url.removeprefix("http://localhost"),
        "headers": {key: text(item) for key, item in message.headers.items()},
        "body": base64.b64encode(body.encode() if isinstance(body, str) else body).decode(),
    }


def requests(request):
    service = service_model(request["service"])
    serializer = create_serializer(service.resolved_protocol, include_validation=False)
    made = {}
    for name in service.operation_names:
        operation = service.operation_model(name)
        parameters = {}
        if operation.input_shape is not None:
            parameters = Sampler("minimal", False, False).sample(operation.input_shape)
        made[name] = prepared(serializer.serialize_to_request(parameters, operation))
    return {"requests": made}


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def response_of(request):
    headers = botocore.awsrequest.HeadersDict(request["headers"])
    return {"status_code": request["status"], "headers": headers, "body": base64.b64decode(request["body"])}


def parse(request):
    service = service_model(request["service"])
    operation = service.operation_model(request["operation"])
    response = response_of(request)
    if operation.has_streaming_output:
        response["body"] = io.BytesIO(response["body"])
    parsed = create_parser(service.resolved_protocol).parse(response, operation.output_shape)
    metadata = parsed.pop("ResponseMetadata")
    query = service.resolved_protocol in ("ec2", "query")
    # Headers of the answer that botocore puts beside the metadata without being asked.
    return {"canonical": canonical(parsed, query), "request_id": metadata.get("RequestId")}


def parse_error(request):
    service = service_model(request["service"])
    response = response_of(request)
    parser = create_parser(service.resolved_protocol)
    parsed = parser.parse(response, None)
    modelled = None
    if request["error"]:
        modelled = canonical(parser.parse(response, service.shape_for(request["error"])), False)
    return {
        "error": parsed.get("Error"),
        "request_id": parsed["ResponseMetadata"].get("RequestId"),
        "modelled": modelled,
    }


def main():
    print(json.dumps({"botocore": botocore.__version__}), flush=True)
    commands = {"samples": samples, "requests": requests, "parse": parse, "parse_error": parse_error}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request["do"]](request)
        except Exception as error:  # told to the test, which fails with it
            answer = {"failure": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
