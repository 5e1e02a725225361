-- The bookkeeping around a migration. {version} is a number of ours.

-- name: insert_shared_version
INSERT INTO dbos_migrations (version) VALUES ({version});

-- name: raise_shared_version
UPDATE dbos_migrations SET version = {version} WHERE version < {version};

-- name: insert_own_version
INSERT INTO perdure_schema_version (version, applied_at)
VALUES ({version}, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));
