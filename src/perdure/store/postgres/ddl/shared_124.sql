-- What version 124 adds to the shared schema, without blocking a live database.

-- name: idx_application_versions_timestamp
CREATE INDEX CONCURRENTLY idx_application_versions_timestamp
    ON {schema}.application_versions (version_timestamp DESC);
