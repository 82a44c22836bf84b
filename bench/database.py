"""Starts a private PostgreSQL server, using the PostgreSQL installed on this machine."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60


def program(name: str) -> str | None:
    places = [os.environ.get("PATH", ""), *(str(folder) for folder in Path("/usr/lib/postgresql").glob("*/bin"))]
    return shutil.which(name, path=os.pathsep.join(places))


@contextmanager
def postgres(*options: str):
    """Starts a private PostgreSQL on a socket; yields a function that creates a database and returns its address."""
    folder = Path(tempfile.mkdtemp(prefix="otpg", dir="/tmp"))
    who = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        who = {"user": nobody.pw_uid, "group": nobody.pw_gid}
    settings = {"cwd": folder, "env": {**os.environ, "HOME": str(folder)}, **who}
    made = [program("initdb"), "--auth=trust", "--username=onetool", "--encoding=UTF8", "--locale=C", "-D", str(folder / "data")]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **settings)
    server = subprocess.Popen(
        [program("postgres"), "-c", "listen_addresses=", "-c", "max_connections=100", *options, "-k", str(folder), "-D", str(folder / "data")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **settings,
    )

    def ask(statement: str, database: str = "postgres") -> str:
        command = [program("psql"), "-X", "-q", "-U", "onetool", "-h", str(folder), "-d", database, "-c", statement]
        return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout

    def address(name: str) -> str:
        ask(f"CREATE DATABASE {name}")
        return f"postgres://onetool@{str(folder).replace('/', '%2F')}/{name}?sslmode=disable"

    address.ask = ask
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                ask("SELECT 1")
                break
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)
