"""An upstream that misbehaves on purpose: tokens that expire and rotate, verified signatures, truncated streams,
endless pages. It verifies signatures with an independent implementation. Prints its port, and then serves."""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "upstream-signing-secret"
AWS = ("AKIDEXAMPLE", "aws/secret+key")
MODULUS = int(open(sys.argv[1]).read(), 16)
LOCK = threading.Lock()


class State:
    redemptions = 0
    serial = 0
    valid = set()
    refresh = "refresh-0"
    revoked = False
    lifetimes = []
    busy = 0
    seen = []
    counts = {}
    gone = 0


def hexmac(text, key=KEY):
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def b64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def check_rs256(jwt, ahead=0):
    """RSASSA-PKCS1-v1_5 with SHA-256, by hand."""
    head, body, signature = jwt.split(".")
    assert json.loads(b64url(head))["alg"] == "RS256", "alg"
    size = (MODULUS.bit_length() + 7) // 8
    plain = pow(int.from_bytes(b64url(signature), "big"), 65537, MODULUS).to_bytes(size, "big")
    digest = hashlib.sha256(f"{head}.{body}".encode()).digest()
    info = bytes.fromhex("3031300d060960864801650304020105000420") + digest
    assert plain == b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info, "the assertion's signature"
    claims = json.loads(b64url(body))
    now = time.time() + ahead
    assert abs(claims["iat"] - now) < 60 and claims["exp"] > now, "the assertion's times"
    return claims


def check_aws(handler, body):
    header = handler.headers["Authorization"]
    fields = dict(part.strip().split("=", 1) for part in header.split(" ", 1)[1].split(","))
    access, day, region, service, _ = fields["Credential"].split("/")
    assert access == AWS[0], "access key"
    path, _, query = handler.path.partition("?")
    pairs = sorted(
        (urllib.parse.quote(name, safe="-_.~"), urllib.parse.quote(value, safe="-_.~"))
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)
    )
    names = fields["SignedHeaders"].split(";")
    assert "host" in names and "x-amz-date" in names, "signed headers"
    lines = "".join(f"{name}:{' '.join(handler.headers[name].split())}\n" for name in names)
    canonical = "\n".join([
        handler.command,
        urllib.parse.quote(path, safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in pairs),
        lines,
        ";".join(names),
        hashlib.sha256(body).hexdigest(),
    ])
    stamp = handler.headers["X-Amz-Date"]
    text = "\n".join([
        "AWS4-HMAC-SHA256", stamp, f"{day}/{region}/{service}/aws4_request",
        hashlib.sha256(canonical.encode()).hexdigest(),
    ])
    key = ("AWS4" + AWS[1]).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    assert hmac.compare_digest(hmac.new(key, text.encode(), "sha256").hexdigest(), fields["Signature"]), "signature"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ahead = 0

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.ahead)

    def answer(self, status, value, headers=()):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        names = [name.lower() for name, _ in headers]
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        for name, text in headers:
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.ahead = 0
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        with LOCK:
            State.seen.append({"path": self.path, "authorization": self.headers.get("Authorization"),
                               "key": self.headers.get("X-Key"), "body": body.decode(errors="replace")})
        try:
            getattr(self, "at_" + url.path.strip("/").split("/")[0])(url.path, query, body)
        except AssertionError as error:
            self.answer(401, {"error": f"refused: {error}"})
        except (BrokenPipeError, ConnectionResetError):
            with LOCK:
                State.gone += 1

    do_POST = do_PUT = do_DELETE = do_GET

    # Control of the upstream by tests.

    def at_state(self, *_):
        with LOCK:
            self.answer(200, {"redemptions": State.redemptions, "seen": State.seen, "gone": State.gone,
                              "refresh": State.refresh})

    def at_set(self, path, query, body):
        with LOCK:
            for name, value in json.loads(body).items():
                setattr(State, name, set(value) if name == "valid" else value)
        self.answer(200, {})

    # Tokens.

    def at_token(self, path, query, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        basic = self.headers.get("Authorization", "")
        self.ahead = 3600 if path.endswith("/ahead") else 0
        with LOCK:
            if State.busy > 0:
                State.busy -= 1
                return self.answer(429, {"error": "slow down"}, [("Retry-After", "1")])
            State.redemptions += 1
            if "client_assertion" in form:
                claims = check_rs256(form["client_assertion"], self.ahead)
                good = claims["iss"] == claims["sub"] == "client" and claims["aud"].endswith(path)
            elif "assertion" in form:
                good = check_rs256(form["assertion"])["sub"] == "somebody"
            elif basic:
                good = base64.b64decode(basic.split()[1]).decode() == "client:s3cret%2Fid"
            else:
                good = (form.get("client_id"), form.get("client_secret")) == ("client", "s3cret/id")
            if not good:
                return self.answer(401, {"error": "invalid_client", "error_description": f"not {form} {basic}"})
            if form["grant_type"] == "refresh_token":
                if State.revoked or form["refresh_token"] != State.refresh:
                    State.revoked = True
                    told = f"family of {form['refresh_token']} is revoked"
                    return self.answer(400, {"error": "invalid_grant", "error_description": told})
            State.serial += 1
            State.refresh = f"refresh-{State.serial}"
            token = f"access-token-{State.serial}"
            State.valid.add(token)
            lifetime = State.lifetimes.pop(0) if State.lifetimes else 3600
            reply = {"access_token": token, "token_type": "Bearer", "expires_in": lifetime,
                     "scope": form.get("scope"), "audience": form.get("audience")}
            if form["grant_type"] == "refresh_token":
                reply["refresh_token"] = State.refresh
            self.answer(200, reply)

    def at_echo(self, path, query, body):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        with LOCK:
            assert token in State.valid, "no such token"
        self.answer(200, {"authorization": self.headers.get("Authorization"), "said": f"you sent {token}"})

    def at_open(self, path, query, body):
        self.answer(200, {"authorization": self.headers.get("Authorization"), "path": self.path,
                          "key": self.headers.get("X-Key")})

    def at_away(self, path, query, body):
        self.answer(302, {}, [("Location", query["to"])])

    # Signatures.

    def at_signed(self, path, query, body):
        text = body.decode()
        kind = path.split("/")[2]
        if kind == "github":
            assert self.headers["X-Hub-Signature-256"] == "sha256=" + hexmac(text), "signature"
        elif kind == "stripe":
            fields = dict(part.split("=") for part in self.headers["Stripe-Signature"].split(","))
            assert fields["v1"] == hexmac(f"{fields['t']}.{text}"), "signature"
            assert abs(int(fields["t"]) - time.time()) < 60, "time"
        elif kind == "binance":
            signed, _, signature = self.path.partition("?")[2].rpartition("&signature=")
            assert signature == hexmac(signed + text), "signature"
            assert self.headers["X-MBX-APIKEY"] == "key-id" and "recvWindow=5000" in signed, "key"
        elif kind in ("generic", "ahead"):
            self.ahead = 3600 if kind == "ahead" else 0
            stamp = self.headers["X-Timestamp"]
            pairs = sorted(part if "=" in part else part + "=" for part in urllib.parse.urlsplit(self.path).query.split("&") if part)
            wanted = [self.command, path, "&".join(pairs), stamp, hashlib.sha256(body).hexdigest()]
            assert self.headers["X-Signature"] == hexmac("\n".join(wanted)), "signature"
            assert abs(int(stamp) - time.time() - self.ahead) < 60, "time"
        elif kind == "aws":
            check_aws(self, body)
        self.answer(200, {"taken": kind, "header": self.headers.get("X-Signature")})

    # Streams.

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def at_sse(self, path, query, body):
        self.begin("text/event-stream")
        self.chunk(": hello\n\n")
        for word in query.get("words", "Hel,lo, wör,ld").split(","):
            self.chunk("data: " + json.dumps({"choices": [{"delta": {"content": word}}]}) + "\n\n")
            time.sleep(float(query.get("pause", 0)))
        if "error" in query:
            self.chunk('data: {"error": {"message": "overloaded"}}\n\n')
        if "cut" in query:
            self.close_connection = True
            self.connection.close()
            return
        if "open" not in query:
            self.chunk("data: [DONE]\n\n")
        self.chunk("")

    def at_endless(self, path, query, body):
        self.begin("text/event-stream")
        number = 0
        while True:
            self.chunk(f"data: {json.dumps({'n': number, 'text': 'x' * int(query.get('size', 1))})}\n\n")
            number += 1
            time.sleep(float(query.get("pause", 0.02)))

    def at_silent(self, path, query, body):
        self.begin("text/event-stream")
        self.chunk('data: {"n": 0}\n\n')
        while not State.counts.get("over"):
            time.sleep(0.05)

    def at_ndjson(self, path, query, body):
        self.begin("application/x-ndjson")
        for number in range(3):
            self.chunk(json.dumps({"n": number, "text": f"line {number}"}) + "\n")
        self.chunk("")

    def at_html(self, path, query, body):
        self.answer(200, b"<html>sorry</html>", [("Content-Type", "text/html")])

    # Pages of 25 items.

    def at_pages(self, path, query, body):
        kind, items = path.split("/")[2], list(range(25))
        if kind == "cursor":
            start = int(query.get("cursor") or (json.loads(body).get("cursor") if body else 0) or 0)
            more = start + 10 < len(items)
            self.answer(200, {"data": {"items": items[start:start + 10]}, "next": str(start + 10) if more else None})
        elif kind == "number":
            page, size = int(query["page"]), int(query.get("size", 10))
            self.answer(200, items[(page - 1) * size:page * size])
        elif kind == "offset":
            start, size = int(query["offset"]), int(query.get("limit", 10))
            self.answer(200, {"items": items[start:start + size]})
        elif kind == "link":
            page = int(query.get("page", 1))
            link = [("Link", f'</pages/link?page={page + 1}>; rel="next", </pages/link?page=3>; rel="last"')]
            self.answer(200, items[(page - 1) * 10:page * 10], link if page < 3 else [])
        elif kind == "elsewhere":
            self.answer(200, items[:10], [("Link", '<http://127.0.0.2:1/pages>; rel="next"')])
        elif kind == "endless":
            page = int(query["page"])
            self.answer(200, [page * 10 + item for item in range(10)])
        elif kind == "same":
            self.answer(200, {"items": [1], "next": "again"})

    # Failures.

    def at_busy(self, path, query, body):
        with LOCK:
            count = State.counts[self.path] = State.counts.get(self.path, 0) + 1
        if count <= int(query.get("times", 1)):
            return self.answer(429, {"error": "slow down"}, [("Retry-After", query.get("after", "1"))])
        self.answer(200, {"count": count})

    def at_slow(self, path, query, body):
        while not State.counts.get("over"):
            time.sleep(0.05)

    def at_cut(self, path, query, body):
        with LOCK:
            count = State.counts[self.path] = State.counts.get(self.path, 0) + 1
        if count <= int(query.get("times", 1)):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"a":')
            self.wfile.flush()
            self.close_connection = True
            return
        self.answer(200, {"count": count})

    def at_large(self, path, query, body):
        self.answer(200, b'"' + b"x" * int(query["bytes"]) + b'"')


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_port, flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
