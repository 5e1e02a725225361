-- The bookkeeping around a migration.
-- {schema} and {own} are the quoted names of the shared schema and of our own, {version} a number
-- of ours, {table} and {index} the quoted names of a table and of an index of it.

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

-- name: keep_builders_out
-- Whoever builds an index of the table without blocking holds this lock until it is finished; until
-- then the index looks broken. Reading and writing the table goes on beside it.
LOCK TABLE {schema}.{table} IN SHARE UPDATE EXCLUSIVE MODE;

-- name: bound_waits
-- Taking an index away waits for whoever reads the table, and keeps new readers waiting.
SET LOCAL lock_timeout = '2s';

-- name: drop_broken_index
DROP INDEX IF EXISTS {schema}.{index};
