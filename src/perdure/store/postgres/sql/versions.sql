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
-- Inserts a version, or claims it if nobody has; a known one keeps its time. It is returned as it
-- stands then, whoever's it is.
INSERT INTO {schema}.application_versions AS v (
    version_id, version_name, application_name, version_timestamp, created_at
)
SELECT gen_random_uuid()::text, $1::text, $2::text, ms, ms FROM (SELECT {now_ms:3} AS ms) clock
ON CONFLICT (version_name) DO UPDATE
SET application_name = COALESCE(v.application_name, EXCLUDED.application_name)
RETURNING {version_columns:v};

-- name: promote_version
-- Makes the version $1 the latest of application $2, if it is its or nobody's; the latest of its own
-- where that is NULL. $3 is the clock's offset.
UPDATE {schema}.application_versions v
SET application_name = COALESCE(v.application_name, $2::text),
    version_timestamp = GREATEST({now_ms:3}, (
        SELECT max(other.version_timestamp) + 1
        FROM {schema}.application_versions other
        WHERE other.version_name <> $1
            AND (
                other.application_name = COALESCE($2, v.application_name)
                OR other.application_name IS NULL
            )
    ))
WHERE v.version_name = $1
    AND (v.application_name = $2 OR v.application_name IS NULL OR $2::text IS NULL)
RETURNING {version_columns:v};

-- name: version
-- A version of whichever application.
SELECT {version_columns:v} FROM {schema}.application_versions v WHERE v.version_name = $1;

-- name: versions
-- The registered versions of an application or of none, of all where that is NULL; the latest first.
SELECT {version_columns:v}
FROM {schema}.application_versions v
WHERE v.application_name = $1 OR v.application_name IS NULL OR $1::text IS NULL
ORDER BY {latest_first};
