"""An MCP server with its own authorization server, for tests, without dependencies.

    oauth_server.py [--entra] [--lifetime SECONDS]

It listens on a free port, which it prints as its first line. Refresh tokens work once: one that is used again ends its
whole family. `/control?KEY=VALUE` changes how it behaves, `/stats` returns what it has seen:

    expire=1     no access token is valid any more        fail=N      the next N requests for tokens get 503
    revoke=1     no refresh token is valid any more       purge=1     every client is forgotten
    iss=X        answers name another issuer              scope=X     calls need this scope
    gateway=N    the next N requests for tokens get a page with 401, as from a gateway on the way
    garble=N     the next N answers with tokens are cut off after the tokens have been given out

With --entra it behaves like a large identity provider: no registration, PKCE not advertised, and an error for requests
that name a resource and scopes of another.
"""

import argparse
import base64
import hashlib
import json
import os
import secrets
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

parser = argparse.ArgumentParser()
parser.add_argument("--entra", action="store_true")
parser.add_argument("--lifetime", type=int, default=3600)
parser.add_argument("--port", type=int, default=0)
options = parser.parse_args()

lock = threading.Lock()
clients, codes, access, refresh = {}, {}, {}, {}
control = {"fail": 0, "iss": "", "scope": "", "garble": 0, "gateway": 0, "lifetime": options.lifetime}
stats = {"registrations": 0, "redemptions": 0, "refreshes": 0, "reuses": 0, "revocations": 0, "refused": 0, "resources": [], "kinds": []}
if options.entra:
    clients["known-client"] = {"redirect_uris": None, "secret": "s3cret"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def reply(self, status, body=None, headers=()):
        data = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        if url.path == "/.well-known/oauth-protected-resource/mcp":
            return self.reply(200, {"resource": f"{self.origin}/mcp", "authorization_servers": [self.origin]})
        if url.path == "/.well-known/oauth-authorization-server" and not options.entra:
            return self.reply(200, {
                "issuer": self.origin, "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token", "registration_endpoint": f"{self.origin}/register",
                "revocation_endpoint": f"{self.origin}/revoke", "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                "authorization_response_iss_parameter_supported": True})
        if url.path == "/.well-known/openid-configuration" and options.entra:
            return self.reply(200, {
                "issuer": self.origin, "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post"]})
        if url.path == "/authorize":
            return self.authorize(query)
        if url.path == "/control":
            return self.steer(query)
        if url.path == "/stats":
            with lock:
                return self.reply(200, {**stats, "clients": len(clients), "access": len(access), "refresh": len(refresh)})
        if url.path == "/mcp":
            return self.reply(405)
        self.reply(404)

    def steer(self, query):
        with lock:
            for key, value in query.items():
                if key == "expire":
                    access.clear()
                elif key == "revoke":
                    refresh.clear()
                elif key == "purge":
                    clients.clear()
                else:
                    control[key] = int(value) if value.isdigit() else value
        self.reply(200, {})

    def authorize(self, query):
        with lock:
            client = clients.get(query.get("client_id"))
            if client is None or client["redirect_uris"] and query["redirect_uri"] not in client["redirect_uris"]:
                return self.reply(400, b"<p>unknown client</p>")
            if options.entra and "resource" in query:
                return self.reply(400, {"error": "invalid_target", "error_description": "AADSTS9010010: The resource parameter doesn't match the requested scopes."})
            code = secrets.token_urlsafe(16)
            codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": control["iss"] or self.origin}
        if options.entra:
            del answer["iss"]
        self.reply(302, None, [("Location", f"{query['redirect_uri']}?{urlencode(answer)}")])

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path == "/register":
            wanted = json.loads(body)
            with lock:
                stats["registrations"] += 1
                client = f"client-{stats['registrations']}"
                clients[client] = {"redirect_uris": wanted["redirect_uris"], "secret": None}
                stats["kinds"].append(wanted.get("application_type"))
            return self.reply(201, {**wanted, "client_id": client, "redirect_uris": [uri + "/" for uri in wanted["redirect_uris"]]})
        form = {key: values[0] for key, values in parse_qs(body.decode(errors="replace")).items()}
        if path == "/token":
            return self.token(form)
        if path == "/revoke":
            with lock:
                stats["revocations"] += 1
                family = refresh.pop(form["token"], None)
                for token in [token for token, other in access.items() if family and other["family"] == family["family"]]:
                    del access[token]
            return self.reply(200)
        if path == "/mcp":
            return self.mcp(json.loads(body))
        self.reply(404)

    def token(self, form):
        with lock:
            if control["fail"]:
                control["fail"] -= 1
                return self.reply(503, b"down for maintenance")
            if control["gateway"]:
                control["gateway"] -= 1
                return self.reply(401, b"<h1>Sign in to the hotel's network</h1>")
            client = clients.get(form.get("client_id"))
            if client is None or client["secret"] and form.get("client_secret") != client["secret"]:
                return self.reply(401, {"error": "invalid_client", "error_description": "who is that?"})
            stats["resources"].append(form.get("resource"))
            if options.entra and "resource" in form:
                return self.reply(400, {"error": "invalid_request", "error_description": "AADSTS901002: The 'resource' request parameter isn't supported."})
            if form["grant_type"] == "authorization_code":
                asked = codes.pop(form["code"], None)
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
                if asked is None or asked["code_challenge"] != proof or asked["redirect_uri"] != form["redirect_uri"]:
                    return self.reply(400, {"error": "invalid_grant"})
                stats["redemptions"] += 1
                grant = {"family": secrets.token_hex(4), "scope": asked.get("scope", ""), "client": form["client_id"]}
            else:
                grant = refresh.get(form["refresh_token"])
                if grant and grant.get("used"):
                    # A reused refresh token was stolen: the whole family becomes invalid.
                    stats["reuses"] += 1
                    for tokens in (access, refresh):
                        for token in [token for token, other in tokens.items() if other["family"] == grant["family"]]:
                            del tokens[token]
                    grant = None
                if grant is None or grant["client"] != form["client_id"]:
                    stats["refused"] += 1
                    return self.reply(400, {"error": "invalid_grant", "error_description": "it is not valid"})
                grant["used"] = True
                stats["refreshes"] += 1
                grant = {key: grant[key] for key in ("family", "scope", "client")}
            token, renewal = "at-" + secrets.token_hex(8), "rt-" + secrets.token_hex(8)
            access[token] = {**grant, "until": time.time() + control["lifetime"]}
            refresh[renewal] = grant
            answer = {"access_token": token, "refresh_token": renewal, "token_type": "Bearer", "expires_in": control["lifetime"]}
            if grant["scope"]:
                answer["scope"] = grant["scope"]
            if control["garble"]:
                control["garble"] -= 1
                self.close_connection = True
                return self.connection.close()
        # Slow enough for a concurrent attempt.
        time.sleep(0.3)
        self.reply(200, answer)

    def mcp(self, message):
        metadata = f'resource_metadata="{self.origin}/.well-known/oauth-protected-resource/mcp"'
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        with lock:
            grant = access.get(token)
        if grant is None or grant["until"] < time.time():
            return self.reply(401, None, [("WWW-Authenticate", f"Bearer {metadata}")])
        method = message.get("method")
        if "id" not in message:
            return self.reply(202)
        if method == "tools/call" and control["scope"] and control["scope"] not in grant["scope"].split():
            challenge = f'Bearer error="insufficient_scope", scope="{control["scope"]}", {metadata}'
            return self.reply(403, None, [("WWW-Authenticate", challenge)])
        results = {
            "initialize": lambda: {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "guarded", "version": "1"}},
            "ping": lambda: {},
            "tools/list": lambda: {"tools": [{"name": "whoami", "inputSchema": {"type": "object", "properties": {}}}]},
            "tools/call": lambda: {"content": [{"type": "text", "text": f"{grant['client']} of {grant['family']}"}]},
        }
        if method not in results:
            return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": results[method]()})


server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
