-- Work that one server has at a time and that outlives it. Whatever is written for a job carries the fence of its holder.
CREATE TABLE onetool_jobs (
    job text COLLATE "C" PRIMARY KEY,
    tags text[] NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    node text,
    until timestamptz NOT NULL DEFAULT '-infinity',
    parked boolean NOT NULL DEFAULT false,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX onetool_jobs_since ON onetool_jobs (since) WHERE NOT parked;

CREATE TABLE onetool_journal (
    job text COLLATE "C" NOT NULL REFERENCES onetool_jobs (job) ON DELETE CASCADE,
    n bigint NOT NULL,
    line text NOT NULL,
    PRIMARY KEY (job, n)
);

-- Takes the job that waits longest; others who look at the same time pass it by.
CREATE FUNCTION onetool_claim_1(who text, has text[], ttl double precision, OUT job text, OUT fence bigint)
LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    SELECT j.job INTO found FROM onetool_jobs j
        WHERE NOT j.parked AND j.until <= clock_timestamp() AND j.tags <@ has
        ORDER BY j.since LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF found IS NOT NULL THEN
        UPDATE onetool_jobs j
            SET fence = j.fence + 1, node = who, until = clock_timestamp() + make_interval(secs => ttl)
            WHERE j.job = found RETURNING j.job, j.fence INTO job, fence;
    END IF;
END $$;

-- Appends to a journal, if the job is still held under this fence. The row stays locked until the lines are there.
CREATE FUNCTION onetool_journal_1(which text, who text, held bigint, first bigint, lines text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM onetool_jobs j
        WHERE j.job = which AND j.node = who AND j.fence = held AND j.until > clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO onetool_journal (job, n, line)
        SELECT which, first + place - 1, line FROM unnest(lines) WITH ORDINALITY AS added (line, place)
        ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
