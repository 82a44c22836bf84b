# /// script
# requires-python = ">=3.10"
# dependencies = ["psycopg[binary]>=3.2", "pymysql>=1.1"]
#
# [tool.onetool]
# # DB_URL is the database that is used when none is named; DB_URL_CRM is the one called "crm".
# secrets = ["DB_URL", "DB_URL_*"]
# ///
"""Query SQLite, PostgreSQL and MySQL databases. Read-only unless the configuration allows writing."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import re
import sqlite3
import time
import urllib.parse
import uuid
from typing import Any

from onetool import get_config, get_secret, resolve_path

pack = "db"

__all__ = ["query", "execute", "tables", "schema", "explain"]

# Each may be changed in onetool.yaml as tools.db.<name in lower case>.
MAX_ROWS = 1000
MAX_BYTES = 4_000_000
MAX_CELL_CHARS = 20_000
TIMEOUT = 30

_READS = {"select", "with", "values", "table", "show", "describe", "desc", "explain", "pragma"}
_SQLITE_PRAGMAS = {"table_info", "table_xinfo", "index_list", "index_info", "foreign_key_list", "table_list"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


def query(sql: str, params: list | dict | None = None, database: str = "", limit: int = 100) -> list[dict]:
    """Run one statement that reads, and return its rows as dicts.

    Values belong in `params`, never in the text: `?` marks or `:name` in SQLite, `%s` or `%(name)s` in PostgreSQL and MySQL.

    Args:
        sql: One SELECT, WITH, VALUES, SHOW or EXPLAIN statement.
        params: Values for the marks in the statement: a list for `?` and `%s`, a dict for named marks.
        database: A name whose URL is the secret DB_URL_<NAME>, or the path of a SQLite file. Empty: the secret DB_URL.
        limit: The most rows to return. Raises if there are more, so that no row is lost silently; use LIMIT in the
            statement to take only the first ones.

    Returns:
        One dict per row, with column names as keys.

    Example:
        db.query(sql="SELECT id, name FROM users WHERE city = ?", params=["Bern"], database="app.sqlite")
    """
    _require_read(sql)
    limit = max(1, min(limit, _limit("max_rows", MAX_ROWS)))
    with _connect(database, write=False) as connection:
        return connection.rows(sql, params, limit)


def execute(sql: str, params: list | dict | None = None, database: str = "") -> dict:
    """Run one statement that changes data, in a transaction of its own.

    Only databases that the configuration names in `tools.db.writable` may be changed.

    Args:
        sql: One INSERT, UPDATE, DELETE or DDL statement.
        params: Values for the marks in the statement: a list for `?` and `%s`, a dict for named marks.
        database: A name whose URL is the secret DB_URL_<NAME>, or the path of a SQLite file. Empty: the secret DB_URL.

    Returns:
        `changed` (the number of rows), `last_id` where the database tells it, and `rows` of a RETURNING clause.

    Example:
        db.execute(sql="UPDATE users SET city = ? WHERE id = ?", params=["Genf", 7], database="app.sqlite")
    """
    _require_one(sql)
    _require_writable(database)
    with _connect(database, write=True) as connection:
        return connection.change(sql, params, _limit("max_rows", MAX_ROWS))


def tables(database: str = "") -> list[dict]:
    """List the tables and views of a database.

    Args:
        database: A name whose URL is the secret DB_URL_<NAME>, or the path of a SQLite file. Empty: the secret DB_URL.

    Returns:
        For each: schema (not in SQLite), name, and kind ("table" or "view").

    Example:
        db.tables(database="app.sqlite")
    """
    with _connect(database, write=False) as connection:
        return connection.tables()


def schema(table: str, database: str = "") -> dict:
    """Describe a table: its columns, primary key, foreign keys and indexes.

    Args:
        table: The table's name, with its schema before a dot where it is not the usual one.
        database: A name whose URL is the secret DB_URL_<NAME>, or the path of a SQLite file. Empty: the secret DB_URL.

    Returns:
        `columns` (name, type, nullable, default), `primary_key`, `foreign_keys` (columns, table, to) and `indexes`
        (name, unique).

    Example:
        db.schema(table="users", database="app.sqlite")
    """
    with _connect(database, write=False) as connection:
        found = connection.schema(table)
        if not found["columns"]:
            names = ", ".join(entry["name"] for entry in connection.tables()) or "none"
            raise LookupError(f"table '{table}' does not exist\nhint: the tables are: {names[:2000]}")
        return found


def explain(sql: str, params: list | dict | None = None, database: str = "") -> str:
    """Show how the database would run a statement. The statement itself is not run.

    Args:
        sql: One statement that reads.
        params: Values for the marks in the statement.
        database: A name whose URL is the secret DB_URL_<NAME>, or the path of a SQLite file. Empty: the secret DB_URL.

    Returns:
        The plan as text.

    Example:
        db.explain(sql="SELECT * FROM users WHERE city = 'Bern'", database="app.sqlite")
    """
    _require_read(sql)
    if _bare(sql).split(None, 1)[0].lower() in ("explain", "pragma", "show", "describe", "desc"):
        raise ValueError("explain takes the statement itself, such as SELECT")
    with _connect(database, write=False) as connection:
        return connection.explain(sql, params)


# ---- what a statement may be ----------------------------------------------------------------------------------------


def _bare(sql: str) -> str:
    """The statement without comments, and with empty strings and quoted names: what is left is keywords and marks."""
    found = []
    token = re.compile(
        r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\$(\w*)\$.*?\$\1\$|.", re.S
    )
    for match in token.finditer(sql):
        text = match.group()
        if text.startswith("/*!") or text.startswith("/*M!"):
            raise ValueError("comments that MySQL runs (/*! … */) are not allowed")
        if text.startswith(("--", "/*")):
            found.append(" ")
        elif len(text) > 1:
            found.append("''")
        else:
            found.append(text)
    return "".join(found).strip()


def _require_one(sql: str) -> str:
    bare = _bare(sql)
    if not bare:
        raise ValueError("the statement is empty")
    if ";" in bare.rstrip("; \n\t\r"):
        raise ValueError("only one statement per call\nhint: call it once for each statement")
    return bare


def _require_read(sql: str) -> None:
    bare = _require_one(sql)
    first = bare.split(None, 1)[0].lower().strip("(")
    if first not in _READS:
        raise PermissionError(f"'{first.upper()}' is not a statement that reads\nhint: changes are made with db.execute")
    # In the text as well: whether a backslash escapes a quote depends on the server's settings.
    if any(re.search(r"\binto\s+(outfile|dumpfile)\b", text, re.I) for text in (bare, sql)):
        raise PermissionError("INTO OUTFILE and INTO DUMPFILE write files on the server")
    if first == "explain" and re.search(r"\banaly[sz]e\b", bare, re.I):
        raise PermissionError("EXPLAIN ANALYZE runs the statement\nhint: use EXPLAIN, or run the statement itself")
    if first == "pragma":
        name = re.match(r"pragma\s+(?:\w+\.)?(\w+)\s*(\(|;|$)", bare, re.I)
        if not name or name.group(1).lower() not in _SQLITE_PRAGMAS:
            raise PermissionError(f"only these PRAGMAs are allowed: {', '.join(sorted(_SQLITE_PRAGMAS))}")


def _require_writable(database: str) -> None:
    writable = get_config("db", "writable", [])
    allowed = writable is True or (isinstance(writable, list) and (database or "default") in writable)
    if not allowed:
        name = database or "default"
        raise PermissionError(
            f"database '{name}' is read-only\nhint: to allow changes, add it to onetool.yaml: "
            f"tools: {{db: {{writable: [{name}]}}}}"
        )


def _limit(name: str, default: int) -> int:
    value = get_config("db", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.db.{name} must be a whole number above 0, not {value!r}")
    return value


# ---- connections ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _connect(database: str, write: bool):
    connection = _open(database, write)
    try:
        yield connection
    finally:
        with contextlib.suppress(Exception):
            connection.close()


def _open(database: str, write: bool):
    if database and not _NAME.match(database):
        return _SQLite(str(database), write)
    secret = f"DB_URL_{database.upper()}" if database else "DB_URL"
    url = get_secret(secret, None)
    if url is None:
        hint = f"add to secrets.yaml: {secret}: postgresql://user:password@host/name (or mysql://, sqlite:///file)"
        raise LookupError(f"database '{database or 'default'}' has no URL: secret {secret} is not set\nhint: {hint}")
    parts = urllib.parse.urlsplit(url)
    kind = parts.scheme.split("+")[0]
    if kind in ("postgres", "postgresql"):
        return _Postgres(url.replace(parts.scheme, "postgresql", 1), write)
    if kind in ("mysql", "mariadb"):
        return _MySQL(parts, write)
    if kind == "sqlite":
        path = urllib.parse.unquote(url.split("://", 1)[1])
        return _SQLite(path[1:] if path.startswith("/") else path, write)
    raise ValueError(f"secret {secret} is not a URL of a known kind (postgresql://, mysql:// or sqlite:///)")


def _value(value: Any) -> Any:
    """A cell as a value that every caller understands."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 2**63 else float(value)
    if isinstance(value, str) and len(value) > MAX_CELL_CHARS:
        return value[:MAX_CELL_CHARS] + f"… ({len(value)} characters)"
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return data if len(data) <= MAX_CELL_CHARS else f"({len(data)} bytes)"
    if isinstance(value, (uuid.UUID, datetime.timedelta)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return value


def _names(description) -> list[str]:
    """Column names; a name that comes twice gets a number, so that no value is lost."""
    names: list[str] = []
    for column in description or []:
        name, count = column[0], 2
        while name in names:
            name, count = f"{column[0]}_{count}", count + 1
        names.append(name)
    return names


def _collect(cursor, limit: int, rows=None) -> list[dict]:
    names, found, size = None, [], 0
    most = _limit("max_bytes", MAX_BYTES)
    for row in iter(cursor.fetchone, None) if rows is None else rows:
        names = names or _names(cursor.description)
        if len(found) == limit:
            hint = "use LIMIT in the statement, fewer columns, or a larger limit"
            raise ValueError(f"the statement gives more than {limit} rows\nhint: {hint}")
        entry = {name: _value(value) for name, value in zip(names, row)}
        size += sum(len(str(value)) for value in entry.values())
        if size > most:
            raise ValueError(f"the rows hold more than {most} bytes\nhint: select fewer columns or rows")
        found.append(entry)
    return found


class _SQLite:
    def __init__(self, path: str, write: bool):
        full = resolve_path(path, write=write)
        if not full.is_file() and not write:
            raise FileNotFoundError(f"{path} does not exist")
        mode = "rwc" if write else "ro"
        target = f"file:{urllib.parse.quote(str(full))}?mode={mode}"
        self._connection = sqlite3.connect(target, uri=True, timeout=5, isolation_level=None)
        self._write = write
        deadline = time.monotonic() + _limit("timeout", TIMEOUT)
        self._connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        self._connection.set_authorizer(_no_other_files)

    def close(self):
        self._connection.close()

    def _run(self, sql: str, params: list | dict | None):
        try:
            return self._connection.execute(sql, params or [])
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise TimeoutError(f"the statement took more than {_limit('timeout', TIMEOUT)} seconds") from None
            raise

    def rows(self, sql, params, limit):
        cursor = self._run(sql, params)
        try:
            return _collect(cursor, limit)
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise TimeoutError(f"the statement took more than {_limit('timeout', TIMEOUT)} seconds") from None
            raise

    def change(self, sql, params, limit):
        cursor = self._run(sql, params)
        rows = _collect(cursor, limit) if cursor.description else []
        return {"changed": max(cursor.rowcount, 0), "last_id": cursor.lastrowid, "rows": rows}

    def tables(self):
        sql = "SELECT name, type AS kind FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        return self.rows(sql + " ORDER BY name", None, 100_000)

    def schema(self, table):
        quoted = '"' + table.replace('"', '""') + '"'
        columns = self.rows(f"PRAGMA table_info({quoted})", None, 10_000)
        keys: dict[int, dict] = {}
        for row in self.rows(f"PRAGMA foreign_key_list({quoted})", None, 10_000):
            entry = keys.setdefault(row["id"], {"columns": [], "table": row["table"], "to": []})
            entry["columns"].append(row["from"])
            entry["to"].append(row["to"])
        indexes = self.rows(f"PRAGMA index_list({quoted})", None, 10_000)
        return {
            "columns": [
                {"name": c["name"], "type": c["type"], "nullable": not c["notnull"] and not c["pk"], "default": c["dflt_value"]}
                for c in columns
            ],
            "primary_key": [c["name"] for c in sorted(columns, key=lambda c: c["pk"]) if c["pk"]],
            "foreign_keys": list(keys.values()),
            "indexes": [{"name": i["name"], "unique": bool(i["unique"])} for i in indexes],
        }

    def explain(self, sql, params):
        rows = self.rows("EXPLAIN QUERY PLAN " + sql, params, 1000)
        return "\n".join(row["detail"] for row in rows)


def _no_other_files(action, first, second, *_):
    # ATTACH would open any file of the machine; load_extension would run one.
    refused = action == sqlite3.SQLITE_ATTACH or (action == sqlite3.SQLITE_FUNCTION and second == "load_extension")
    return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK


class _Server:
    """What PostgreSQL and MySQL have in common: the information schema."""

    def tables(self):
        return self.rows(self._tables, None, 100_000)

    def schema(self, table):
        place, _, name = table.rpartition(".")
        values = {"table": name, "schema": place or None}
        columns = self.rows(self._columns, values, 10_000)
        keys: dict[str, dict] = {}
        for row in self.rows(self._keys, values, 10_000):
            entry = keys.setdefault(row["name"], {"columns": [], "table": row["target"], "to": []})
            entry["columns"].append(row["source"])
            entry["to"].append(row["to_column"])
        return {
            "columns": [{**column, "nullable": column["nullable"] == "YES"} for column in columns],
            "primary_key": [row["name"] for row in self.rows(self._primary, values, 1000)],
            "foreign_keys": list(keys.values()),
            "indexes": [{**i, "unique": bool(i["unique"])} for i in self.rows(self._indexes, values, 10_000)],
        }


class _Postgres(_Server):
    _here = "COALESCE(%(schema)s::text, current_schema())"
    _tables = """SELECT table_schema AS schema, table_name AS name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END
        AS kind FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"""
    _columns = f"""SELECT column_name AS name, data_type AS type, is_nullable AS nullable, column_default AS default
        FROM information_schema.columns WHERE table_name = %(table)s AND table_schema = {_here} ORDER BY ordinal_position"""
    _primary = f"""SELECT a.attname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
        WHERE i.indisprimary AND c.relname = %(table)s AND n.nspname = {_here} ORDER BY array_position(i.indkey, a.attnum)"""
    _keys = f"""SELECT k.conname AS name, a.attname AS source, t.relname AS target, b.attname AS to_column
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_class t ON t.oid = k.confrelid CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u(f, g, o)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.f JOIN pg_attribute b ON b.attrelid = t.oid AND b.attnum = u.g
        WHERE k.contype = 'f' AND c.relname = %(table)s AND n.nspname = {_here} ORDER BY 1, u.o"""
    _indexes = f"""SELECT x.relname AS name, i.indisunique AS unique FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = %(table)s AND n.nspname = {_here} ORDER BY 1"""

    def __init__(self, url: str, write: bool):
        import psycopg

        seconds = _limit("timeout", TIMEOUT)
        try:
            self._connection = psycopg.connect(
                url, connect_timeout=10, options=f"-c statement_timeout={seconds * 1000}", application_name="onetool"
            )
        except psycopg.OperationalError as error:
            raise ConnectionError(_without_password(str(error), url)) from None
        self._connection.read_only = not write

    def close(self):
        self._connection.close()

    def rows(self, sql, params, limit):
        # Row by row, so that a large answer is not held; and one statement at most, whatever the text says.
        cursor = self._connection.cursor()
        with contextlib.closing(cursor.stream(sql, params)) as rows:
            return _collect(cursor, limit, rows)

    def change(self, sql, params, limit):
        # A prepared statement can only be one statement, whatever the text says.
        cursor = self._connection.execute(sql, params, prepare=True)
        rows = _collect(cursor, limit) if cursor.description else []
        self._connection.commit()
        return {"changed": max(cursor.rowcount, 0), "last_id": None, "rows": rows}

    def explain(self, sql, params):
        return "\n".join(next(iter(row.values())) for row in self.rows("EXPLAIN " + sql, params, 10_000))


class _MySQL(_Server):
    _here = "COALESCE(%(schema)s, DATABASE())"
    _tables = """SELECT table_schema AS `schema`, table_name AS name, IF(table_type = 'VIEW', 'view', 'table') AS kind
        FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 2"""
    _columns = f"""SELECT column_name AS name, column_type AS type, is_nullable AS nullable, column_default AS `default`
        FROM information_schema.columns WHERE table_name = %(table)s AND table_schema = {_here} ORDER BY ordinal_position"""
    _primary = f"""SELECT column_name AS name FROM information_schema.key_column_usage WHERE constraint_name = 'PRIMARY'
        AND table_name = %(table)s AND table_schema = {_here} ORDER BY ordinal_position"""
    _keys = f"""SELECT constraint_name AS name, column_name AS source, referenced_table_name AS target,
        referenced_column_name AS to_column FROM information_schema.key_column_usage WHERE referenced_table_name IS NOT NULL
        AND table_name = %(table)s AND table_schema = {_here} ORDER BY 1, ordinal_position"""
    _indexes = f"""SELECT DISTINCT index_name AS name, IF(non_unique, 0, 1) AS `unique` FROM information_schema.statistics
        WHERE table_name = %(table)s AND table_schema = {_here} ORDER BY 1"""

    def __init__(self, parts, write: bool):
        import pymysql

        seconds = _limit("timeout", TIMEOUT)
        options = dict(urllib.parse.parse_qsl(parts.query))
        place = {"unix_socket": options["unix_socket"]} if "unix_socket" in options else {}
        try:
            self._connection = pymysql.connect(
                host=parts.hostname or "localhost",
                port=parts.port or 3306,
                user=urllib.parse.unquote(parts.username or ""),
                password=urllib.parse.unquote(parts.password or ""),
                database=urllib.parse.unquote(parts.path.lstrip("/")) or None,
                charset="utf8mb4",
                connect_timeout=10,
                read_timeout=seconds,
                write_timeout=seconds,
                autocommit=False,
                **place,
            )
        except pymysql.err.OperationalError as error:
            raise ConnectionError(str(error.args[-1])) from None
        with self._connection.cursor() as cursor:
            cursor.execute("START TRANSACTION READ ONLY" if not write else "START TRANSACTION")

    def close(self):
        self._connection.close()

    def rows(self, sql, params, limit):
        import pymysql.cursors

        cursor = self._connection.cursor(pymysql.cursors.SSCursor)
        cursor.execute(sql, params)
        try:
            found = _collect(cursor, limit)
        except ValueError:
            # The rest of the rows is not wanted: closing the connection spares reading it.
            cursor._result.unbuffered_active = False
            self._connection._force_close()
            raise
        cursor.close()
        return found

    def change(self, sql, params, limit):
        with self._connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows = _collect(cursor, limit) if cursor.description else []
            self._connection.commit()
            return {"changed": max(cursor.rowcount, 0), "last_id": cursor.lastrowid or None, "rows": rows}

    def explain(self, sql, params):
        rows = self.rows("EXPLAIN " + sql, params, 1000)
        return "\n".join("  ".join(f"{name}={value}" for name, value in row.items() if value is not None) for row in rows)


def _without_password(text: str, url: str) -> str:
    password = urllib.parse.urlsplit(url).password
    return text.replace(password, "***") if password else text
