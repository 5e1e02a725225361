-- The registry of application versions. All parameters are named.

-- name: register_version
-- Inserts a version, or claims it if nobody has; a known one keeps its time.
INSERT INTO application_versions (
    version_id, version_name, version_timestamp, created_at, application_name
) VALUES (:id, :version, :now, :now, :application)
ON CONFLICT (version_name) DO UPDATE
SET application_name = COALESCE(application_versions.application_name, excluded.application_name);

-- name: version_holder
-- The application that registered a version.
SELECT application_name FROM application_versions WHERE version_name = :version;

-- name: versions
-- The versions of this application or of none, the latest first.
SELECT v.version_name FROM application_versions v
WHERE v.application_name = :application OR v.application_name IS NULL
ORDER BY v.version_timestamp DESC, v.rowid DESC;
