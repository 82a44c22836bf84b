"""Signs the requests of the cases beside this file with an implementation of its own, and compares with what each says must
be sent. `--write FILE` fills in what a new case must send."""

import base64
import datetime
import hashlib
import hmac
import json
import pathlib
import re
import sys
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes, urlsplit

PRESETS = {
    "generic": (
        "${method}\n${path}\n${query.sorted}\n${timestamp}\n${body|sha256|hex}", "unix_s",
        [("header", "X-Timestamp", "${timestamp}"), ("header", "X-Signature", "${signature}")],
    ),
    "github": ("${body}", "unix_s", [("header", "X-Hub-Signature-256", "sha256=${signature}")]),
    "stripe": ("${timestamp}.${body}", "unix_s", [("header", "Stripe-Signature", "t=${timestamp},v1=${signature}")]),
    "binance": (
        "${query.raw}${body}", "unix_ms",
        [("header", "X-MBX-APIKEY", "${keyId}"), ("query", "recvWindow", "5000"),
         ("query", "timestamp", "${timestamp}"), ("query", "signature", "${signature}")],
    ),
}
ENCODINGS = {
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
    "base64url": lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
}
FILTERS = ENCODINGS | {
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
    "sha512": lambda data: hashlib.sha512(data).digest(),
    "lower": bytes.lower,
    "upper": bytes.upper,
    "urlencode": lambda data: quote_from_bytes(data, safe="-_.~").encode(),
}


class Request:
    """A message that headers, pairs and fields can be added to."""

    def __init__(self, case):
        message = case["request"]
        self.method, self.url = message["method"], message["url"]
        self.headers = {name.lower(): value for name, value in message.get("headers", {}).items()}
        self.body = message.get("body")

    def add_query(self, pair):
        self.url += ("&" if urlsplit(self.url).query else "?" if "?" not in self.url else "") + pair

    def add(self, place, name, value):
        if place == "header":
            self.headers[name.lower()] = value
        elif place == "query":
            self.add_query(f"{encoded(name)}={encoded(value)}")
        elif "json" in self.headers["content-type"]:
            members = self.body.strip()[1:-1]
            comma = "," if members.strip() else ""
            self.body = f"{{{members}{comma}{json.dumps(name)}:{json.dumps(value)}}}"
        else:
            self.body = (self.body + "&" if self.body.strip() else "") + f"{encoded(name)}={encoded(value)}"

    def message(self):
        made = {"method": self.method, "url": self.url, "headers": self.headers}
        return made if self.body is None else made | {"body": self.body}


def encoded(text):
    return quote(text, safe="-_.~")


def canonical_query(query):
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    again = [tuple(quote_from_bytes(unquote_to_bytes(part), safe="-_.~") for part in (name, value))
             for name, _, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(again))


def named(text, secrets):
    """Secrets in a value of a block."""
    return re.sub(r"\$\{(\w+)\}", lambda found: secrets[found[1]], text)


def stamp(form, now):
    if form == "unix_s":
        return str(int(now.timestamp()))
    if form == "unix_ms":
        return str(round(now.timestamp() * 1000))
    return now.strftime({"iso8601": "%Y-%m-%dT%H:%M:%SZ", "http_date": "%a, %d %b %Y %H:%M:%S GMT"}[form])


def sign_hmac(auth, secrets, now, nonce, request):
    to_sign, form, entries = PRESETS[auth.get("preset", "generic")]
    to_sign = auth.get("stringToSign", to_sign)
    form = auth["timestamp"].get("format", "unix_s") if "timestamp" in auth else form
    if auth.get("apply"):
        entries = [(entry["in"], entry["name"], entry["value"]) for entry in auth["apply"]]
    secret = named(auth["secret"], secrets)
    key = {"utf8": str.encode, "hex": bytes.fromhex, "base64": base64.b64decode}[auth.get("secretEncoding", "utf8")](secret)

    def filled(text, signature=b""):
        url = urlsplit(request.url)
        parts = {
            "method": request.method, "scheme": url.scheme, "host": url.netloc, "path": url.path, "url": request.url,
            "query.raw": url.query, "query.sorted": canonical_query(url.query), "body": request.body or "",
            "timestamp": stamp(form, now), "nonce": nonce, "signature": signature,
            "keyId": named(auth.get("keyId", ""), secrets), "secret": secret,
        }

        def part(found):
            name, *filters = found[1].split("|")
            if name.startswith("header."):
                value = request.headers.get(name[7:].lower(), "")
            else:
                value = parts[name] if name in parts else secrets[name]
            value = value if isinstance(value, bytes) else value.encode()
            for one in filters:
                value = FILTERS[one](value)
            return value

        pieces = re.split(r"(\$\{[^}]*\})", text)
        return b"".join(
            part(re.fullmatch(r"\$\{([^}]*)\}", piece)) if piece.startswith("${") else piece.encode() for piece in pieces
        )

    late = [entry for entry in entries if "${signature" in entry[2]]
    for place, name, value in entries:
        if (place, name, value) not in late:
            request.add(place, name, filled(value).decode())
    algorithm = auth.get("algorithm", "hmac-sha256")
    if algorithm.startswith("hmac-"):
        digest = hmac.new(key, filled(to_sign), algorithm[5:]).digest()
    else:
        digest = hashlib.new(algorithm, filled(to_sign)).digest()
    signature = ENCODINGS[auth.get("encoding", "hex")](digest)
    for place, name, value in late:
        request.add(place, name, filled(value, signature).decode())


def sign_aws(auth, secrets, now, request):
    region, service = auth["region"], auth["service"]
    access, secret = named(auth["accessKeyId"], secrets), named(auth["secretAccessKey"], secrets)
    token = named(auth["sessionToken"], secrets) if "sessionToken" in auth else None
    time, in_query, is_s3 = now.strftime("%Y%m%dT%H%M%SZ"), auth.get("in") == "query", service == "s3"
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    content = hashlib.sha256((request.body or "").encode()).hexdigest()
    if auth.get("payload") == "unsigned" or (is_s3 and in_query):
        content = "UNSIGNED-PAYLOAD"
    if not in_query:
        request.headers["x-amz-date"] = time
        if token:
            request.headers["x-amz-security-token"] = token
        if is_s3 or content == "UNSIGNED-PAYLOAD":
            request.headers["x-amz-content-sha256"] = content
    signed = {"host": urlsplit(request.url).netloc}
    if not in_query:
        signed |= {name: " ".join(value.split()) for name, value in request.headers.items()
                   if name.startswith("x-amz-") or name == "content-type"}
    names = ";".join(sorted(signed))
    if in_query:
        added = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": f"{access}/{scope}", "X-Amz-Date": time,
                 "X-Amz-Expires": "300", "X-Amz-SignedHeaders": names}
        if token:
            added["X-Amz-Security-Token"] = token
        for name, value in added.items():
            request.add("query", name, value)
    url = urlsplit(request.url)
    if is_s3:
        path = "/".join(quote_from_bytes(unquote_to_bytes(part), safe="-_.~") for part in url.path.split("/"))
    else:
        path = quote(re.sub("/+", "/", url.path), safe="/-_.~")
    headers = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = "\n".join([request.method, path or "/", canonical_query(url.query), headers, names, content])
    text = "\n".join(["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in (time[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    if in_query:
        request.add("query", "X-Amz-Signature", signature)
    else:
        request.headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
        )


def sent(case):
    auth, secrets, request = case["auth"], case["secrets"], Request(case)
    now = datetime.datetime.fromisoformat(case["now"].replace("Z", "+00:00"))
    match auth["type"]:
        case "hmac":
            sign_hmac(auth, secrets, now, case.get("nonce", ""), request)
        case "sigv4":
            sign_aws(auth, secrets, now, request)
        case "apiKey":
            request.add(auth["in"], auth["name"], named(auth["value"], secrets))
        case "basic":
            pair = f"{named(auth['username'], secrets)}:{named(auth['password'], secrets)}"
            request.headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        case "bearer":
            request.headers["authorization"] = "Bearer " + named(auth["token"], secrets)
    return request.message()


def main():
    if sys.argv[1:2] == ["--write"]:
        path = pathlib.Path(sys.argv[2])
        case = json.loads(path.read_text())
        case["sent"] = sent(case)
        path.write_text(json.dumps(case, indent=2, ensure_ascii=False) + "\n")
        return
    files = sorted(pathlib.Path(__file__).parent.glob("*.json"))
    for path in files:
        case = json.loads(path.read_text())
        wanted = case["sent"] | {"headers": {name.lower(): text for name, text in case["sent"].get("headers", {}).items()}}
        if sent(case) != wanted:
            sys.exit(f"{path.name}: {json.dumps(sent(case), indent=1)}\nis not\n{json.dumps(wanted, indent=1)}")
    print(f"{len(files)} cases")


if __name__ == "__main__":
    main()
