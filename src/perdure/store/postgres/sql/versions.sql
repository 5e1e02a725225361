-- The registry of application versions.

-- name: register_version
-- Inserts a version, or claims it if nobody has; a known one keeps its time. `holder` is whose it
-- is afterwards.
INSERT INTO {schema}.application_versions AS v (
    version_id, version_name, application_name, version_timestamp, created_at
)
SELECT gen_random_uuid()::text, $1::text, $2::text, ms, ms FROM (SELECT {now_ms:3} AS ms) clock
ON CONFLICT (version_name) DO UPDATE
SET application_name = COALESCE(v.application_name, EXCLUDED.application_name)
RETURNING v.application_name AS holder;
