-- What a migration and a check read before they decide.

-- name: tables
SELECT name FROM main.sqlite_schema WHERE type = 'table';

-- name: sharded
SELECT EXISTS (
    SELECT 1 FROM pragma_table_info('workflow_status') WHERE name = 'shard_key'
);

-- name: shared_versions
SELECT version FROM dbos_migrations ORDER BY version;

-- name: own_version
SELECT max(version) FROM perdure_schema_version;
