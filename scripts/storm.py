#!/usr/bin/env python3
"""Four servers behind a load balancer on one PostgreSQL, a mixed load, and somebody who pulls plugs.

Every 20 s a server is killed without a word and started again; in the long form PostgreSQL is restarted twice. Where that is
possible (root, and `ip netns`) every server is a machine of its own, in a network namespace; then, once a minute, one of them
is also cut off for 20 s: it goes on, but reaches neither PostgreSQL nor anybody else. Afterwards: every acknowledged write is
there, no call that must not be made twice was made twice (an upstream counts them by key), no run is without an end, names
are unique. Prints a table; exits with 1 on any violation.

  scripts/storm.py --onetool target/debug/onetool              about 40 s of load
  scripts/storm.py --onetool target/debug/onetool --long       10 minutes

Needs PostgreSQL's server programs and nginx (Debian: postgresql, nginx-light).
"""

import argparse
import collections
import concurrent.futures
import glob
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

NODES = 4
KILL_EVERY = 20
TERMINAL = {"completed", "failed", "cancelled", "interrupted"}
SETTLE = 150  # seconds after the load in which every run must come to its end
NOBODY = 65534
CUT_EVERY = 60  # seconds between two servers that are cut off
CUT_FOR = 20
TOKEN = "storm-storm-storm-storm"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def program(name):
    found = shutil.which(name) or next(iter(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")), None)
    found = found or next((path for path in (f"/usr/sbin/{name}", f"/sbin/{name}") if os.path.exists(path)), None)
    return found or sys.exit(f"storm: {name} is missing (Debian: apt-get install postgresql nginx-light)")


def new_id():
    """A UUID of version 7, as bundles have."""
    number = (int(time.time() * 1000) << 80) | random.getrandbits(80)
    number = (number & ~(0xF << 76)) | (7 << 76)
    return str(uuid.UUID(int=(number & ~(3 << 62)) | (2 << 62)))


class Loopback:
    """All servers on this machine's own address."""

    has_cables = False
    here = "127.0.0.1"

    def address(self, number):
        return self.here

    def within(self, number, command):
        return command

    def close(self):
        pass


class Cables:
    """A network of its own for every server, and a switch that connects them with this machine."""

    has_cables = True

    def __init__(self):
        self.name = f"ot{os.getpid() % 100000}"
        self.net = f"10.{random.randrange(64, 250)}.{random.randrange(1, 250)}"
        self.here = f"{self.net}.1"
        self.ip("link", "add", self.name, "type", "bridge")
        try:
            self.ip("addr", "add", f"{self.here}/24", "dev", self.name)
            self.ip("link", "set", self.name, "up")
            for number in range(NODES):
                space, cable = f"{self.name}-{number}", self.cable(number)
                self.ip("netns", "add", space)
                self.ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
                self.ip("link", "set", cable, "master", self.name, "up")
                for command in (["addr", "add", f"{self.address(number)}/24", "dev", "eth0"],
                                ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
                    self.ip("-n", space, *command)
        except OSError:
            self.close()
            raise

    @staticmethod
    def ip(*arguments):
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
        if done.returncode:
            raise OSError(done.stderr.strip())

    def cable(self, number):
        return f"{self.name}v{number}"

    def address(self, number):
        return f"{self.net}.{10 + number}"

    def within(self, number, command):
        return ["ip", "netns", "exec", f"{self.name}-{number}", *command]

    def pull(self, number):
        self.ip("link", "set", self.cable(number), "down")

    def plug(self, number):
        self.ip("link", "set", self.cable(number), "up")

    def close(self):
        for number in range(NODES):
            subprocess.run(["ip", "netns", "del", f"{self.name}-{number}"], capture_output=True)
        subprocess.run(["ip", "link", "del", self.name], capture_output=True)


def network():
    try:
        return Cables()
    except OSError as error:
        print(f"all servers share this machine's network: {error}")
        return Loopback()


class Upstream:
    """Counts what must not happen twice, by key. Now and then it is slow, so that servers die while they wait for it."""

    def __init__(self, address):
        self.counts = collections.Counter()
        self.reads = 0
        lock = threading.Lock()
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                key = self.path.rsplit("/", 1)[-1]
                with lock:
                    upstream.counts[key] += 1
                    count = upstream.counts[key]
                time.sleep(random.choice([0, 0.02, 0.05, 0.2, 1.0]))
                self.answer({"count": count})

            def do_GET(self):
                with lock:
                    upstream.reads += 1
                self.answer({"ok": True})

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_):
                pass  # whoever asked was killed

        self.server = Server((address, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Postgres:
    def __init__(self, folder, host):
        self.folder, self.child, self.host, self.port = folder, None, host, free_port()
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        os.makedirs(folder)
        if self.user:
            os.chown(folder, NOBODY, NOBODY)
        self.call("initdb", "--auth=trust", "--no-sync", "--username=onetool", "--encoding=UTF8", "--locale=C",
                  "-D", f"{folder}/data")
        with open(f"{folder}/data/pg_hba.conf", "a") as out:
            out.write("host all all samenet trust\n")
        self.start()
        self.call("psql", "--no-psqlrc", "--quiet", "--username=onetool", "--dbname=postgres", "--host", folder,
                  "--port", str(self.port), "--command", "CREATE DATABASE storm")

    def call(self, name, *arguments):
        done = subprocess.run([program(name), *arguments], cwd=self.folder, capture_output=True, text=True, **self.user)
        if done.returncode:
            sys.exit(f"storm: {name} failed: {done.stderr}")

    def start(self):
        with open(f"{self.folder}/log", "ab") as log:
            self.child = subprocess.Popen(
                [program("postgres"), "-c", f"listen_addresses={self.host}", "-c", f"port={self.port}", "-c", "max_connections=100", "-k", self.folder,
                 "-D", f"{self.folder}/data"], cwd=self.folder, stdout=log, stderr=log, **self.user)
        until = time.time() + 60
        while True:
            asked = subprocess.run([program("psql"), "--no-psqlrc", "--username=onetool", "--dbname=postgres", "--host",
                                    self.folder, "--port", str(self.port), "--command", "SELECT 1"],
                                   capture_output=True, cwd=self.folder, **self.user)
            if asked.returncode == 0:
                return
            if time.time() > until:
                sys.exit("storm: PostgreSQL does not start")
            time.sleep(0.1)

    def stop(self, how=signal.SIGINT):
        if self.child:
            self.child.send_signal(how)
            self.child.wait(60)

    def restart(self):
        self.stop()
        time.sleep(1)
        self.start()

    @property
    def address(self):
        return f"postgres://onetool@{self.host}:{self.port}/storm?sslmode=disable"


class Node:
    def __init__(self, binary, folder, where, configuration):
        self.binary, self.folder, self.child = binary, folder, None
        self.net, self.number = where
        self.host, self.port = self.net.address(self.number), free_port()
        os.makedirs(f"{folder}/.onetool")
        os.makedirs(f"{folder}/home")
        with open(f"{folder}/.onetool/onetool.yaml", "w") as out:
            out.write(configuration)
        self.start()

    def start(self):
        environment = {**os.environ, "HOME": f"{self.folder}/home"}
        for name in ("ONETOOL_CONFIG", "ONETOOL_PROJECT", "OT_SECRETS_FILE"):
            environment.pop(name, None)
        with open(f"{self.folder}/log", "ab") as log:
            command = self.net.within(self.number, [self.binary, "serve", "--http", f"{self.host}:{self.port}"])
            self.child = subprocess.Popen(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                          stdout=log, stderr=log)

    def kill(self):
        self.child.kill()
        self.child.wait()


class Balancer:
    """nginx in front of all of them. A request is tried elsewhere only where it cannot have reached a server."""

    def __init__(self, folder, nodes):
        os.makedirs(folder)
        self.port = free_port()
        servers = "\n".join(f"    server {node.host}:{node.port} max_fails=1 fail_timeout=1s;" for node in nodes)
        with open(f"{folder}/nginx.conf", "w") as out:
            out.write(f"""
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream nodes {{
{servers}
  }}
  server {{
    listen 127.0.0.1:{self.port};
    location / {{
      proxy_pass http://nodes; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_connect_timeout 1s; proxy_read_timeout 75s;
      proxy_next_upstream error timeout; proxy_next_upstream_tries 3;
    }}
  }}
}}
""")
        self.child = subprocess.Popen([program("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.child.terminate()
        self.child.wait(10)


class Away(Exception):
    """No answer, or one that says that nothing is known to have happened."""


class Client:
    def __init__(self, port, host="127.0.0.1"):
        self.host, self.port = host, port

    def ask(self, method, path, body=None, headers=None, timeout=30):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body).encode()
            head = {"authorization": f"Bearer {TOKEN}", **(headers or {})}
            if data is not None:
                head["content-type"] = "application/json"
            connection.request(method, path, data, head)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Away(str(error)) from error
        finally:
            connection.close()
        if answer.status in (408, 502, 503, 504):
            raise Away(f"{answer.status} {text[:200]}")
        try:
            return answer.status, json.loads(text) if text else None
        except ValueError:
            return answer.status, text


class Storm:
    def __init__(self, client, upstream, seconds):
        self.client, self.upstream = client, upstream
        self.end = time.time() + seconds
        self.lock = threading.Lock()
        self.numbers = collections.Counter()
        self.bundles = {}  # acknowledged: id -> slug
        self.runs = {}  # acknowledged: id -> keys of its effects
        self.resumed = set()  # by somebody who has the code told that a call is unknown
        self.violations = []

    def count(self, what, by=1):
        with self.lock:
            self.numbers[what] += by

    def violation(self, text):
        with self.lock:
            self.violations.append(text)

    def running(self):
        return time.time() < self.end

    # The load.

    def interactive(self):
        while self.running():
            a, b = random.randrange(1000), random.randrange(1000)
            try:
                status, body = self.client.ask("POST", "/api/runs", {"command": f"{a} * {b}"})
                if status == 200 and body["text"] == str(a * b):
                    self.count("runs answered")
                else:
                    self.violation(f"a run of {a} * {b} answered {status} {body}")
            except Away:
                self.count("runs without an answer")
                time.sleep(0.1)

    def puts(self):
        while self.running():
            # Few names, many who want them: who comes first has it.
            slug = f"s{random.randrange(10_000_000):07d}" if random.random() < 0.6 else f"wanted{random.randrange(40)}"
            key = new_id()
            try:
                status, body = self.client.ask("PUT", f"/tools/bundles/{key}", {"slug": slug})
                if status in (200, 201):
                    with self.lock:
                        self.bundles[key] = slug
                    self.count("PUTs acknowledged")
                elif status == 409:
                    self.count("PUTs refused: the name is taken")
                else:
                    self.violation(f"PUT of {slug}: {status} {body}")
            except Away:
                self.count("PUTs without an answer")
            time.sleep(0.02)

    def submit(self, command):
        """Starts a run; sends it again, with the same key, until somebody has acknowledged it."""
        key = str(uuid.uuid4())
        while True:
            try:
                status, body = self.client.ask("POST", "/runs", {"command": command}, {"idempotency-key": key})
            except Away:
                self.count("starts sent again")
                if not self.running():
                    return None
                time.sleep(0.3)
                continue
            if status in (200, 202):
                return body["id"]
            self.violation(f"POST /runs: {status} {body}")
            return None

    def background(self):
        while self.running():
            keys = [uuid.uuid4().hex for _ in range(random.randrange(1, 4))]
            command = "import random\nseen = []\n" + "\n".join(
                f"storm.look(what='x')\nseen.append(storm.effect(key='{key}'))" for key in keys)
            command += "\n[len(seen), random.random() < 2]"
            run = self.submit(command)
            if run:
                with self.lock:
                    self.runs[run] = keys
                self.count("background runs acknowledged")
                self.follow(run)

    def approvals(self):
        while self.running():
            key = uuid.uuid4().hex
            before = uuid.uuid4().hex
            run = self.submit(f"storm.effect(key='{before}')\nstorm.guarded(key='{key}')\n'allowed'")
            if run:
                with self.lock:
                    self.runs[run] = [before, key]
                self.count("runs that ask acknowledged")
                self.follow(run)

    def look(self, run):
        status, body = self.client.ask("GET", f"/runs/{run}?wait=2")
        if status == 404:
            self.violation(f"the acknowledged run {run} is not there")
            return {"status": "cancelled"}
        return body if status == 200 else {"status": "unknown"}

    def follow(self, run):
        """Until it has ended, or the storm has: permissions are given, interruptions decided."""
        while self.running():
            try:
                body = self.look(run)
                if body["status"] == "suspended":
                    self.approve(body)
                elif body["status"] in TERMINAL:
                    return
            except Away:
                time.sleep(0.3)

    def approve(self, body):
        status, _ = self.client.ask("POST", f"/api/approvals/{body.get('approval')}", {"decision": "once"})
        if status == 204:
            self.count("permissions given")
        time.sleep(0.1)

    # What must be true afterwards.

    def settle(self):
        until = time.time() + SETTLE
        left = set(self.runs)

        def ended(run):
            try:
                body = self.look(run)
                if body["status"] == "suspended":
                    self.approve(body)
                return body["status"] in TERMINAL and self.judge(run, body)
            except Away:
                time.sleep(0.2)
                return False

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            while left and time.time() < until:
                left = {run for run, has_ended in zip(left, pool.map(ended, left)) if not has_ended}
        for run in left:
            try:
                body = self.look(run)
            except Away as error:
                body = {"status": str(error)}
            # One that was interrupted, or has been given up since, has its end: only nobody was asked in time.
            if body["status"] not in TERMINAL:
                self.violation(f"the run {run} has no end: {body}")

    def judge(self, run, body):
        """Whether this is the end of it."""
        self.count(f"runs {body['status']}")
        counts = [self.upstream.counts[key] for key in self.runs[run]]
        if body["status"] == "completed" and any(count != 1 for count in counts):
            self.violation(f"the run {run} is completed, and its effects took place {counts} times")
        if body["status"] == "interrupted":
            # Whoever is asked gives it up, or goes on without repeating anything.
            choice = random.choice(["resume", "abandon"])
            answer = {"unknown": "raise"} if choice == "resume" else None
            self.client.ask("POST", f"/runs/{run}/{choice}", answer)
            self.count(f"interrupted runs: {choice}")
            self.resumed.add(run)
            return False
        if body["status"] == "failed" and run not in self.resumed:
            _, result = self.client.ask("GET", f"/runs/{run}/result")
            if "did not answer within" in str(result) and self.numbers["servers cut off"]:
                # Its server was cut off from the upstream in the middle of a call, and the code was told so.
                self.count("runs failed: the upstream was out of reach")
            else:
                self.violation(f"the run {run} failed: {json.dumps(result)[:400]}")
        return True

    def check(self):
        for key, count in self.upstream.counts.items():
            if count > 1:
                self.violation(f"the call with the key {key} was made {count} times")
        self.count("effects that took place", len(self.upstream.counts))
        found, token = {}, ""
        while True:
            status, body = self.client.ask("GET", f"/tools/bundles?pageSize=256{token}")
            if status != 200:
                self.violation(f"bundles cannot be listed: {status} {body}")
                return
            for bundle in body["bundles"]:
                found[bundle["bundleID"]] = bundle["slug"]
            if not body.get("nextPageToken"):
                break
            token = f"&pageToken={body['nextPageToken']}"
        lost = [key for key, slug in self.bundles.items() if found.get(key) != slug]
        if lost:
            self.violation(f"{len(lost)} acknowledged PUTs are not there, the first: {lost[0]} {self.bundles[lost[0]]}")
        twice = [slug for slug, count in collections.Counter(found.values()).items() if count > 1]
        if twice:
            self.violation(f"names that are taken twice: {twice}")


TOOLS = {
    "effect": ("POST", "/effect/${key}", {"key": {"type": "string"}}),
    "guarded": ("POST", "/guarded/${key}", {"key": {"type": "string"}}),
    "look": ("GET", "/look?what=${what}", {"what": {"type": "string"}}),
}


def until_answered(client, method, path, body=None, wanted=(200, 201), patience=120):
    until = time.time() + patience
    while True:
        try:
            status, answer = client.ask(method, path, body)
            if status in wanted:
                return answer
            answer = f"{status} {answer}"
            if status == 400:
                sys.exit(f"storm: {method} {path}: {answer}")
        except Away as error:
            answer = str(error)
        if time.time() > until:
            sys.exit(f"storm: {method} {path}: {answer}")
        time.sleep(0.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onetool", default=os.environ.get("ONETOOL_BIN", "target/debug/onetool"))
    parser.add_argument("--long", action="store_true", help="10 minutes, and PostgreSQL is restarted twice")
    parser.add_argument("--seconds", type=int, help="another duration of the load")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    options = parser.parse_args()
    seconds = options.seconds or (600 if options.long else 40)
    binary = os.path.abspath(options.onetool)
    folder = tempfile.mkdtemp(prefix="otstorm", dir="/tmp")
    os.chmod(folder, 0o755)
    net = network()
    postgres, nodes, balancer = None, [], None
    try:
        upstream = Upstream(net.here)
        postgres = Postgres(f"{folder}/pg", net.here)
        configuration = f"""state: {postgres.address}
http: {{allowed_hosts: ["http://{net.here}:{upstream.port}"]}}
server: {{tokens: [{{token: {TOKEN}, name: storm, scopes: [read, invoke, admin]}}]}}
security: {{policy: {{storm.guarded: ask}}}}
background: {{max_active: 2000, max_kept: 100000, ttl: 7200}}
bundles: {{max_bundles: 100000}}
stats: {{enabled: false}}
"""
        nodes = [Node(binary, f"{folder}/node{number}", (net, number), configuration) for number in range(NODES)]
        balancer = Balancer(f"{folder}/nginx", nodes)
        for node in nodes:
            until_answered(Client(node.port, node.host), "GET", "/readyz")
        client = Client(balancer.port)
        bundle = f"/tools/bundles/{new_id()}"
        until_answered(client, "PUT", bundle, {"slug": "storm"})
        for slug, (method, path, properties) in TOOLS.items():
            tool = {
                "type": "http",
                "description": f"the storm's {slug}",
                "impl": {"method": method, "urlTemplate": f"http://{net.here}:{upstream.port}{path}"},
                "argSchema": {"type": "object", "properties": properties, "required": list(properties)},
            }
            until_answered(client, "PUT", f"{bundle}/tools/{slug}/version/v1", tool)
        # Other servers follow within a moment.
        for node in nodes:
            for slug in TOOLS:
                until_answered(Client(node.port, node.host), "GET", f"{bundle}/tools/{slug}/version/v1")
        return pull_plugs(client, upstream, postgres, (net, nodes), seconds, options)
    finally:
        for node in nodes:
            if node.child.poll() is None:
                node.child.terminate()
        for node in nodes:
            try:
                node.child.wait(15)
            except subprocess.TimeoutExpired:
                node.kill()
        if balancer:
            balancer.stop()
        if postgres:
            postgres.stop()
        net.close()
        if options.keep:
            print(f"the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def pull_plugs(client, upstream, postgres, servers, seconds, options):
    net, nodes = servers
    storm = Storm(client, upstream, seconds)
    work = [storm.interactive] * 2 + [storm.puts] * 2 + [storm.background] * 4 + [storm.approvals] * 2
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    started = time.time()
    for thread in threads:
        thread.start()
    every = min(KILL_EVERY, max(seconds // 3, 5))
    restarts = [seconds * 0.35, seconds * 0.7] if options.long else []
    victim, next_kill = 0, every
    cut, next_cut = None, CUT_EVERY // 2  # (which, until when)
    while storm.running():
        time.sleep(0.2)
        passed = time.time() - started
        if passed >= next_kill and passed < seconds - 2:
            node = nodes[victim % len(nodes)]
            node.kill()
            storm.count("servers killed")
            time.sleep(1)
            node.start()
            victim, next_kill = victim + 1, next_kill + every
        if cut and (passed >= cut[1] or not storm.running()):
            net.plug(cut[0])
            cut = None
        if net.has_cables and not cut and next_cut <= passed < seconds - CUT_FOR - 2:
            # Not the one that is killed next.
            cut, next_cut = ((victim + 2) % len(nodes), passed + CUT_FOR), next_cut + CUT_EVERY
            net.pull(cut[0])
            storm.count("servers cut off")
        if restarts and passed >= restarts[0]:
            restarts.pop(0)
            postgres.restart()
            storm.count("PostgreSQL restarts")
    if cut:
        net.plug(cut[0])
    for thread in threads:
        thread.join(60)
    storm.settle()
    storm.check()
    where = "networks of their own" if net.has_cables else "one network"
    print(f"{NODES} servers in {where}, {seconds} s of load, {time.time() - started:.0f} s in all")
    for what, number in sorted(storm.numbers.items()):
        print(f"  {what:40} {number:>8}")
    for text in storm.violations[:50]:
        print(f"VIOLATION {text}")
    print(f"violations: {len(storm.violations)}")
    return 1 if storm.violations else 0


if __name__ == "__main__":
    sys.exit(main())
