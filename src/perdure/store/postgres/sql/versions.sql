-- The registry of application versions.

-- fragment: latest_first
-- The order in which versions follow each other.
v.version_timestamp DESC, v.created_at DESC, v.version_name DESC

-- fragment: latest_version
-- The latest registered version of an application or of none.
(
    SELECT v.version_name
    FROM {schema}.application_versions v
    WHERE v.application_name = ${arg} OR v.application_name IS NULL
    ORDER BY {latest_first}
    LIMIT 1
)

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

-- name: versions
-- The registered versions of an application or of none, the latest first.
SELECT v.version_name
FROM {schema}.application_versions v
WHERE v.application_name = $1 OR v.application_name IS NULL
ORDER BY {latest_first};
