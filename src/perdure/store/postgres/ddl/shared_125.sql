-- What version 125 adds to the shared schema, without blocking a live database.

-- name: idx_application_versions_owner_timestamp
CREATE INDEX CONCURRENTLY idx_application_versions_owner_timestamp
    ON {schema}.application_versions (application_name, version_timestamp DESC);
