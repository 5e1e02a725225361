-- The bookkeeping around a migration.
-- {schema} and {own} are the quoted names of the shared schema and of our own, {version} a number
-- of ours, {index} the quoted name of one of our indexes.

-- name: create_shared_schema
CREATE SCHEMA IF NOT EXISTS {schema};

-- name: create_own_schema
CREATE SCHEMA IF NOT EXISTS {own};

-- name: insert_shared_version
INSERT INTO {schema}.dbos_migrations (version) VALUES ({version});

-- name: raise_shared_version
-- Never lowers it: a program ahead of us may have raised it in the meantime.
UPDATE {schema}.dbos_migrations SET version = {version} WHERE version < {version};

-- name: insert_own_version
INSERT INTO {own}.schema_version (version, applied_at)
VALUES ({version}, (EXTRACT(epoch FROM clock_timestamp()) * 1000)::bigint);

-- name: drop_broken_index
DROP INDEX CONCURRENTLY IF EXISTS {schema}.{index};
