-- The registry of application versions. All parameters are named.

-- name: claim_version
-- Makes an unclaimed version this application's; its time stays.
UPDATE application_versions SET application_name = :application
WHERE version_name = :version AND application_name IS NULL;

-- name: insert_version
-- Registers a version unless the name is taken.
INSERT INTO application_versions (
    version_id, version_name, version_timestamp, created_at, application_name
) VALUES (:id, :version, :now, :now, :application)
ON CONFLICT DO NOTHING;

-- name: version_holder
-- The application that registered a version.
SELECT application_name FROM application_versions WHERE version_name = :version;
