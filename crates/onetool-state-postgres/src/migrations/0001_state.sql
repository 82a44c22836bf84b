-- Documents. A change takes the next number of its collection under a row lock that is held until it is committed, so
-- numbers become visible in order: whoever has read up to a number has missed nothing below it.
CREATE TABLE onetool_collections (
    collection text PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0,
    -- Removals up to this number are forgotten.
    floor bigint NOT NULL DEFAULT 0
);

CREATE TABLE onetool_documents (
    collection text NOT NULL,
    key text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    -- Both are null once the document was removed.
    revision text,
    content bytea,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (collection, key)
);
CREATE UNIQUE INDEX onetool_documents_seq ON onetool_documents (collection, seq);

CREATE TABLE onetool_quarantine (
    id bigserial PRIMARY KEY,
    collection text NOT NULL,
    key text NOT NULL,
    content bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Puts (or, with null content, removes) a document. Answers 'done', 'conflict' or 'stale'.
CREATE FUNCTION onetool_put_1(
    c text, k text, expected text, expected_revision text, prefix text, seen bigint, new_revision text, new_content bytea
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
    found_revision text;
BEGIN
    INSERT INTO onetool_collections (collection) VALUES (c) ON CONFLICT DO NOTHING;
    UPDATE onetool_collections SET seq = seq + 1 WHERE collection = c RETURNING seq INTO n;
    IF prefix IS NOT NULL AND EXISTS (
        SELECT 1 FROM onetool_documents d WHERE d.collection = c AND d.seq > seen AND starts_with(d.key, prefix)
    ) THEN
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

-- Blobs: rows of what they are, and their content in chunks, which arrive before the blob has a name.
CREATE TABLE onetool_uploads (
    upload uuid PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE onetool_chunks (
    upload uuid NOT NULL,
    n integer NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (upload, n)
);
ALTER TABLE onetool_chunks ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE TABLE onetool_blobs (
    id text PRIMARY KEY,
    scope text NOT NULL,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    notes text NOT NULL,
    -- Null once the content has expired: it is remembered that it was there.
    upload uuid
);
CREATE INDEX onetool_blobs_age ON onetool_blobs (created_at) WHERE upload IS NOT NULL;

CREATE TABLE onetool_secrets (
    name text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE onetool_leases (
    name text PRIMARY KEY,
    owner text NOT NULL,
    fence bigint NOT NULL,
    until timestamptz NOT NULL
);

CREATE TABLE onetool_limits (
    bucket text PRIMARY KEY,
    -- When the bucket would be full again, in microseconds since the epoch.
    full_at bigint NOT NULL DEFAULT 0
);

-- Takes up to so many tokens; answers how many there were, and how long until the next where there was none.
CREATE FUNCTION onetool_take_1(b text, wanted bigint, burst bigint, period bigint, OUT tokens bigint, OUT retry bigint)
LANGUAGE plpgsql AS $$
DECLARE
    instant bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    token bigint := greatest(period / burst, 1);
    missing bigint;
    kept bigint;
BEGIN
    INSERT INTO onetool_limits (bucket) VALUES (b) ON CONFLICT DO NOTHING;
    SELECT full_at INTO kept FROM onetool_limits WHERE bucket = b FOR UPDATE;
    missing := least(greatest(kept - instant, 0), period);
    tokens := least(wanted, (period - missing) / token);
    retry := token - (period - missing) % token;
    IF tokens > 0 THEN
        UPDATE onetool_limits SET full_at = instant + missing + tokens * token WHERE bucket = b;
    END IF;
END $$;

-- Lines that are only appended. Numbers are given out under a row lock, as for documents.
CREATE TABLE onetool_streams (
    stream text PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL DEFAULT 1
);

CREATE TABLE onetool_trail (
    stream text NOT NULL,
    seq bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (stream, seq)
);

CREATE FUNCTION onetool_append_1(s text, lines text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
    added bigint;
BEGIN
    SELECT coalesce(sum(octet_length(line) + 1), 0) INTO added FROM unnest(lines) AS line;
    INSERT INTO onetool_streams (stream) VALUES (s) ON CONFLICT DO NOTHING;
    UPDATE onetool_streams SET seq = seq + cardinality(lines), bytes = bytes + added WHERE stream = s RETURNING seq INTO last;
    INSERT INTO onetool_trail (stream, seq, line)
        SELECT s, last - cardinality(lines) + n, line FROM unnest(lines) WITH ORDINALITY AS appended (line, n);
END $$;
