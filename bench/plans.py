#!/usr/bin/env python3
"""Shows query plans and times of the important PostgreSQL statements with millions of stored results.

    python3 bench/plans.py [--rows 10000000] [--onetool PATH]

The binary itself creates the tables; the rows are generated and have no contents.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from database import postgres  # noqa: E402
from subjects import Project  # noqa: E402


FILL = """
INSERT INTO onetool_blobs (id, scope, media_type, bytes, created_at, notes, upload)
SELECT md5(n::text), 'owner' || n % 1000, 'text/plain; charset=utf-8', 20000 + n % 60000, now() - make_interval(secs => n * 0.3), '{{}}', md5(n::text)::uuid
FROM generate_series(1, {rows}) AS n
"""
STATEMENTS = {
    "describe": "SELECT id, scope, media_type, bytes, created_at, notes FROM onetool_blobs WHERE id = md5('4711')",
    "read a piece": "SELECT c.content FROM onetool_blobs b JOIN onetool_chunks c USING (upload) WHERE b.id = md5('4711') AND c.n BETWEEN 0 AND 0 ORDER BY c.n",
    "store": "INSERT INTO onetool_blobs AS old (id, scope, media_type, bytes, notes, upload, created_at) VALUES (md5('new'), '', 'text/plain', 1, '{}', gen_random_uuid(), clock_timestamp()) ON CONFLICT (id) DO UPDATE SET created_at = clock_timestamp(), upload = coalesce(old.upload, excluded.upload)",
    "expire a batch": "WITH due AS (SELECT id, upload FROM onetool_blobs WHERE upload IS NOT NULL AND created_at <= now() - make_interval(secs => {oldest}) ORDER BY created_at LIMIT 5000 FOR UPDATE SKIP LOCKED) UPDATE onetool_blobs b SET upload = NULL FROM due WHERE b.id = due.id AND b.upload = due.upload",
    "the newest of one owner": "SELECT id, scope, media_type, bytes, created_at, notes FROM onetool_blobs WHERE scope = 'owner7' AND upload IS NOT NULL AND created_at >= now() - make_interval(secs => 3600) ORDER BY created_at DESC LIMIT 200",
    "a page of a copy": "SELECT id, scope, media_type, bytes, created_at, notes FROM onetool_blobs WHERE id > md5('4711') AND upload IS NOT NULL ORDER BY id LIMIT 500",
    "nothing to expire": "SELECT id, upload FROM onetool_blobs WHERE upload IS NOT NULL AND created_at <= now() - make_interval(secs => 1e9) ORDER BY created_at LIMIT 5000",
    "is there too much": "SELECT created_at FROM (SELECT created_at, sum(bytes) OVER (ORDER BY created_at DESC ROWS UNBOUNDED PRECEDING) AS total FROM onetool_blobs WHERE upload IS NOT NULL) AS ranked WHERE total > 9000000000000 ORDER BY created_at DESC LIMIT 1",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--onetool", type=Path, default=HERE.parent / "target/release/onetool")
    chosen = parser.parse_args()
    with postgres("-c", "shared_buffers=512MB", "-c", "maintenance_work_mem=256MB") as address:
        with Project(f"state: {address('big')}\n") as project:
            copied = [chosen.onetool, "state", "copy", str(project.folder / ".onetool"), project_address(project)]
            subprocess.run(copied, check=True, cwd=project.folder, env=project.environment(), stdout=subprocess.DEVNULL)
        address.ask(FILL.format(rows=chosen.rows), "big")
        address.ask("VACUUM ANALYZE onetool_blobs", "big")
        sizes = "SELECT pg_size_pretty(pg_table_size('onetool_blobs')) AS rows, pg_size_pretty(pg_indexes_size('onetool_blobs')) AS indexes"
        print(address.ask(sizes, "big"))
        oldest = int(chosen.rows * 0.3) - 2000
        for what, statement in STATEMENTS.items():
            print(f"## {what}\n")
            print(address.ask("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) " + statement.replace("{oldest}", str(oldest)), "big"))
    return 0


def project_address(project: Project) -> str:
    return (project.folder / ".onetool/onetool.yaml").read_text().removeprefix("state: ").strip()


if __name__ == "__main__":
    sys.exit(main())
