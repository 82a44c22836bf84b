-- The age of blobs with their sizes, so that "which are beyond the limit" is answered from the index alone.
CREATE INDEX IF NOT EXISTS onetool_blobs_age_bytes ON onetool_blobs (created_at DESC) INCLUDE (bytes) WHERE upload IS NOT NULL;
