-- The registry of application versions. All parameters are named.

-- name: register_version
-- Inserts a version, or claims it if nobody has; a known one keeps its time.
INSERT INTO application_versions (
    version_id, version_name, version_timestamp, created_at, application_name
) VALUES (:id, :version, :now, :now, :application)
ON CONFLICT (version_name) DO UPDATE
SET application_name = COALESCE(application_versions.application_name, excluded.application_name);

-- name: promote_version
-- Makes a version the latest of an application, if it is its or nobody's; the latest of its own
-- where that is NULL.
UPDATE application_versions AS v
SET application_name = COALESCE(application_name, :application),
    version_timestamp = max(:now, COALESCE((
        SELECT max(other.version_timestamp) + 1
        FROM application_versions other
        WHERE other.version_name <> :version
            AND (
                other.application_name = COALESCE(:application, v.application_name)
                OR other.application_name IS NULL
            )
    ), 0))
WHERE version_name = :version
    AND (application_name = :application OR application_name IS NULL OR :application IS NULL);

-- name: version
-- A version of whichever application.
SELECT {version_columns:v} FROM application_versions v WHERE v.version_name = :version;

-- name: versions
-- The versions of the application or of none, of all where that is NULL; the latest first.
SELECT {version_columns:v} FROM application_versions v
WHERE v.application_name = :application OR v.application_name IS NULL OR :application IS NULL
ORDER BY v.version_timestamp DESC, v.rowid DESC;
