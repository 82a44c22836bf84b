-- Removals that everybody has heard of are forgotten, up to `floor` of their collection. Whoever knows less than that reads
-- everything again, and decides again.
CREATE INDEX IF NOT EXISTS onetool_documents_removed ON onetool_documents (collection, seq) WHERE content IS NULL;

-- The same function as before, but a snapshot from before `floor` is stale. Servers of the previous version call it too.
CREATE OR REPLACE FUNCTION onetool_put_1(
    c text, k text, expected text, expected_revision text, prefix text, seen bigint, new_revision text, new_content bytea
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
    forgotten bigint;
    found_revision text;
BEGIN
    INSERT INTO onetool_collections (collection) VALUES (c) ON CONFLICT DO NOTHING;
    UPDATE onetool_collections SET seq = seq + 1 WHERE collection = c RETURNING seq, floor INTO n, forgotten;
    IF prefix IS NOT NULL AND (seen < forgotten OR EXISTS (
        SELECT 1 FROM onetool_documents d WHERE d.collection = c AND d.seq > seen AND starts_with(d.key, prefix)
    )) THEN
        RETURN 'stale';
    END IF;
    SELECT d.revision INTO found_revision FROM onetool_documents d WHERE d.collection = c AND d.key = k;
    IF (expected = 'absent' AND found_revision IS NOT NULL)
        OR (expected = 'revision' AND found_revision IS DISTINCT FROM expected_revision) THEN
        RETURN 'conflict';
    END IF;
    IF new_content IS NULL AND found_revision IS NULL THEN
        RETURN 'done';
    END IF;
    INSERT INTO onetool_documents (collection, key, seq, revision, content) VALUES (c, k, n, new_revision, new_content)
    ON CONFLICT (collection, key) DO UPDATE
        SET seq = n, revision = new_revision, content = new_content, changed_at = now();
    RETURN 'done';
END $$;

-- Forgets up to so many removals of a collection that are older than so many seconds; says how many. The last change stays,
-- so that whoever reads everything learns a number that is not below the floor.
CREATE FUNCTION onetool_forget_1(c text, age double precision, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    last bigint;
    gone bigint;
BEGIN
    PERFORM 1 FROM onetool_collections WHERE collection = c FOR UPDATE;
    SELECT max(seq) INTO newest FROM onetool_documents WHERE collection = c;
    WITH old AS (
        SELECT seq FROM onetool_documents
        WHERE collection = c AND content IS NULL AND seq < newest
            AND changed_at <= clock_timestamp() - make_interval(secs => age)
        ORDER BY seq LIMIT most
    ), removed AS (
        DELETE FROM onetool_documents d USING old WHERE d.collection = c AND d.seq = old.seq RETURNING d.seq
    )
    SELECT max(seq), count(*) INTO last, gone FROM removed;
    UPDATE onetool_collections SET floor = greatest(floor, last) WHERE collection = c AND last IS NOT NULL;
    RETURN gone;
END $$;

-- Stored results of one owner, the newest first. What the older index was for, onetool_blobs_age_bytes does too.
CREATE INDEX IF NOT EXISTS onetool_blobs_newest ON onetool_blobs (scope, created_at DESC) WHERE upload IS NOT NULL;
DROP INDEX IF EXISTS onetool_blobs_age;
