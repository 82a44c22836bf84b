"""The pack `db` on real databases: SQLite always, PostgreSQL and MariaDB where their servers are installed."""

from __future__ import annotations

import glob
import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import time

import pytest

TABLES = [
    "CREATE TABLE city (id INTEGER PRIMARY KEY, name VARCHAR(80) NOT NULL, area NUMERIC(8,2))",
    "CREATE TABLE person (id INTEGER PRIMARY KEY, name VARCHAR(80), city_id INTEGER, FOREIGN KEY (city_id) REFERENCES city (id))",
    "CREATE UNIQUE INDEX person_name ON person (name)",
    "INSERT INTO city VALUES (1, 'Bern', 51.6), (2, 'Genf', 15.9)",
    "INSERT INTO person VALUES (1, 'Ada', 1), (2, 'Zoë', 2)",
]


@pytest.fixture
def sqlite(tmp_path):
    with sqlite3.connect(tmp_path / "app.sqlite") as connection:
        for statement in TABLES:
            connection.execute(statement)
    connection.close()
    return "app.sqlite"


def test_rows_are_dicts(start, sqlite):
    db = start("db")
    assert db.query(sql="SELECT id, name FROM city ORDER BY id", database=sqlite) == [
        {"id": 1, "name": "Bern"},
        {"id": 2, "name": "Genf"},
    ]
    assert db.query(sql="SELECT name FROM city WHERE id = ?", params=[2], database=sqlite) == [{"name": "Genf"}]
    assert db.query(sql="SELECT :a AS a", params={"a": "x'; DROP TABLE city"}, database=sqlite) == [{"a": "x'; DROP TABLE city"}]
    # Two columns of one name both survive.
    assert db.query(sql="SELECT 1 AS n, 2 AS n", database=sqlite) == [{"n": 1, "n_2": 2}]


def test_a_sqlite_file_is_found_by_its_secret(start, sqlite):
    db = start("db", secrets={"DB_URL": f"sqlite:///{sqlite}", "DB_URL_CRM": f"sqlite:///{sqlite}"})
    assert [table["name"] for table in db.tables()] == ["city", "person"]
    assert len(db.tables(database="crm")) == 2


def test_schema_tells_keys_and_indexes(start, sqlite):
    described = start("db").schema(table="person", database=sqlite)
    assert [column["name"] for column in described["columns"]] == ["id", "name", "city_id"]
    assert described["primary_key"] == ["id"]
    assert described["foreign_keys"] == [{"columns": ["city_id"], "table": "city", "to": ["id"]}]
    assert described["indexes"] == [{"name": "person_name", "unique": True}]


def test_explain_does_not_run(start, sqlite):
    assert "person" in start("db").explain(sql="SELECT * FROM person", database=sqlite)


READ_ONLY = [
    "DELETE FROM city",
    "/* SELECT */ DELETE FROM city",
    "-- SELECT\nDELETE FROM city",
    "SELECT 1; DELETE FROM city",
    "WITH x AS (SELECT 1) DELETE FROM city",
    "PRAGMA writable_schema = 1",
    "PRAGMA table_info = 1",
    "ATTACH DATABASE 'other.sqlite' AS other",
    "EXPLAIN ANALYZE DELETE FROM city",
    "SELECT * FROM city INTO OUTFILE '/tmp/x'",
    "SELECT * FROM city /*!50000 INTO OUTFILE '/tmp/x' */",
    "COPY city TO PROGRAM 'id'",
    "",
]


@pytest.mark.parametrize("sql", READ_ONLY)
def test_a_query_changes_nothing(start, sqlite, sql):
    db = start("db", config={"db": {"writable": True}})
    with pytest.raises(Exception) as raised:
        db.query(sql=sql, database=sqlite)
    assert raised.value.kind in ("PermissionError", "ValueError", "OperationalError"), raised.value
    assert db.query(sql="SELECT count(*) AS n FROM city", database=sqlite) == [{"n": 2}]


def test_words_in_text_are_not_statements(start, sqlite):
    db = start("db")
    assert db.query(sql="SELECT 'a; DELETE FROM city' AS t -- ; x", database=sqlite) == [{"t": "a; DELETE FROM city"}]


def test_changes_need_permission(start, sqlite, failed):
    failed("PermissionError", "read-only", start("db").execute, sql="DELETE FROM person", database=sqlite)
    db = start("db", config={"db": {"writable": [sqlite]}})
    assert db.execute(sql="DELETE FROM person WHERE id = ?", params=[1], database=sqlite)["changed"] == 1
    inserted = db.execute(sql="INSERT INTO person VALUES (9, 'New', 1) RETURNING name", database=sqlite)
    assert inserted["rows"] == [{"name": "New"}]
    failed("ValueError", "one statement", db.execute, sql="DELETE FROM person; DELETE FROM city", database=sqlite)


def test_limits(start, sqlite, failed):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n"
    db = start("db", config={"db": {"timeout": 1, "max_rows": 50, "max_bytes": 40}})
    failed("ValueError", "more than 10 rows", db.query, sql=numbers.format(11), database=sqlite, limit=10)
    failed("ValueError", "more than 50 rows", db.query, sql="SELECT '' " + "UNION ALL SELECT '' " * 60, database=sqlite, limit=1000)
    failed("ValueError", "more than 40 bytes", db.query, sql="SELECT printf('%.100c', 'x')", database=sqlite)
    endless = numbers.format(10**12).replace("SELECT i FROM n", "SELECT count(*) FROM n")
    failed("TimeoutError", "1 seconds", db.query, sql=endless, database=sqlite)


def test_paths_stay_inside(start, sqlite, tmp_path, failed):
    db = start("db")
    outside = tmp_path.parent / "outside.sqlite"
    sqlite3.connect(outside).close()
    (tmp_path / "link.sqlite").symlink_to(outside)
    for path in ("../outside.sqlite", str(outside), "link.sqlite"):
        failed("PermissionError", "outside the folders", db.tables, database=path)
    failed("FileNotFoundError", "missing.sqlite", db.tables, database="missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()


def test_what_is_missing_is_named(start, sqlite, failed):
    db = start("db", secrets={"DB_URL_ODD": "oracle://x"})
    assert "DB_URL_CRM" in failed("LookupError", "hint:", db.tables, database="crm")
    failed("LookupError", "city, person", db.schema, table="persons", database=sqlite)
    failed("ValueError", "known kind", db.tables, database="odd")
    message = failed("ConnectionError", "", start("db", secrets={"DB_URL": "postgresql://u:hunter2@127.0.0.1:1/x"}).tables)
    assert "hunter2" not in message


# ---- servers --------------------------------------------------------------------------------------------------------


def _as(user: str):
    """Runs a server's program as its own user where we are root, which the servers refuse to be."""
    return {"user": user} if os.geteuid() == 0 else {}


def _user(*names: str) -> str | None:
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    for name in (*names, "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


def _folder(tmp_path_factory, user: str) -> pathlib.Path:
    folder = pathlib.Path(subprocess.check_output(["mktemp", "-d", "/tmp/dbXXXXXX"], text=True).strip())
    if os.geteuid() == 0:
        shutil.chown(folder, user)
    return folder


def _await(ready, process=None):
    end = time.monotonic() + 60
    while not ready():
        assert process is None or process.poll() is None, "the server ended"
        assert time.monotonic() < end, "the server did not become ready"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    programs = programs[-1] if programs else os.path.dirname(shutil.which("initdb") or "")
    user = _user("postgres")
    if not programs:
        pytest.skip("PostgreSQL's server programs are not installed")
    folder = _folder(tmp_path_factory, user)
    data = folder / "data"
    run = dict(check=True, cwd=folder, stdout=subprocess.DEVNULL, **_as(user))
    subprocess.run([f"{programs}/initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8"], **run)
    server = subprocess.Popen(
        [f"{programs}/postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as(user),
    )
    _await(lambda: subprocess.run([f"{programs}/pg_isready", "-q", "-h", folder]).returncode == 0, server)
    yield f"postgresql://tester@/postgres?host={folder}"
    server.terminate()
    server.wait(timeout=30)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def mysql(tmp_path_factory):
    program = shutil.which("mariadbd", path=os.environ["PATH"] + ":/usr/sbin")
    if not program:
        pytest.skip("MariaDB's server program is not installed")
    user = _user("mysql")
    folder = _folder(tmp_path_factory, user)
    (folder / "data").mkdir()
    (folder / "init.sql").write_text("CREATE DATABASE app;")
    if os.geteuid() == 0:
        shutil.chown(folder / "data", user)
    socket = folder / "socket"
    server = subprocess.Popen(
        [program, "--no-defaults", f"--datadir={folder}/data", f"--socket={socket}", "--skip-networking",
         "--skip-grant-tables", f"--init-file={folder}/init.sql", f"--pid-file={folder}/pid"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as(user),
    )
    _await(socket.exists, server)
    yield f"mysql://tester@localhost/app?unix_socket={socket}"
    server.terminate()
    server.wait(timeout=30)
    shutil.rmtree(folder)


@pytest.fixture(params=["postgres", "mysql"])
def server(request, start):
    """A pack with a filled database behind DB_URL."""
    url = request.getfixturevalue(request.param)
    db = start("db", secrets={"DB_URL": url}, config={"db": {"writable": ["default"], "timeout": 5}})
    for statement in ["DROP TABLE IF EXISTS person", "DROP TABLE IF EXISTS city", *TABLES]:
        db.execute(sql=statement)
    db.kind = request.param
    return db


def test_servers_answer_as_sqlite_does(server):
    assert server.query(sql="SELECT name, area FROM city WHERE id = %s", params=[1]) == [{"name": "Bern", "area": 51.6}]
    assert server.query(sql="SELECT p.name FROM person p WHERE p.name = %(n)s", params={"n": "Zoë"}) == [{"name": "Zoë"}]
    assert [table["name"] for table in server.tables()] == ["city", "person"]
    described = server.schema(table="person")
    assert [column["name"] for column in described["columns"]] == ["id", "name", "city_id"]
    assert described["primary_key"] == ["id"]
    assert described["foreign_keys"] == [{"columns": ["city_id"], "table": "city", "to": ["id"]}]
    assert {"name": "person_name", "unique": True} in described["indexes"]
    assert "city" in server.explain(sql="SELECT * FROM city")
    changed = server.execute(sql="UPDATE city SET area = %s WHERE id = %s", params=[52, 1])
    assert changed["changed"] == 1
    assert server.query(sql="SELECT area FROM city WHERE id = 1") == [{"area": 52}]


@pytest.mark.parametrize("sql", [*READ_ONLY, "SET TRANSACTION READ WRITE", "COMMIT", "SHOW TABLES; DROP TABLE person"])
def test_a_query_changes_nothing_on_a_server(server, sql):
    with pytest.raises(Exception) as raised:
        server.query(sql=sql)
    assert hasattr(raised.value, "kind"), raised.value
    assert server.query(sql="SELECT count(*) AS n FROM city") == [{"n": 2}]


def test_a_data_modifying_with_is_refused_by_the_server(server):
    if server.kind != "postgres":
        pytest.skip("only PostgreSQL has it")
    with pytest.raises(Exception, match="ReadOnlySqlTransaction"):
        server.query(sql="WITH gone AS (DELETE FROM person RETURNING *) SELECT * FROM gone")


def test_more_rows_than_allowed_do_not_hang(server, failed):
    sql = "SELECT a.id FROM city a, city b, city c, city d"
    failed("ValueError", "more than 3 rows", server.query, sql=sql, limit=3)
    assert server.query(sql="SELECT 1 AS one") == [{"one": 1}]


def test_a_slow_statement_is_stopped(server):
    sleep = "SELECT pg_sleep(60)" if server.kind == "postgres" else "SELECT SLEEP(60)"
    with pytest.raises(Exception) as raised:
        server.query(sql=sleep)
    assert raised.value.kind in ("QueryCanceled", "OperationalError", "TimeoutError"), raised.value
