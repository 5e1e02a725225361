-- What a migration and a check read before they decide. They need no right beyond SELECT.
-- {schema} and {own} are the quoted names of the shared schema and of our own.

-- name: catalogue
-- $1 the shared schema, $2 our own, $3 the shared tables' names.
SELECT
    ARRAY(
        SELECT relation.relname::text
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = $1 AND relation.relkind IN ('r', 'p')
            AND relation.relname = ANY ($3::text[])
    ) AS tables,
    ARRAY(
        SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname IN ($1, $2)
    ) AS schemas,
    EXISTS (
        SELECT
        FROM pg_catalog.pg_attribute AS attribute
        JOIN pg_catalog.pg_class AS relation ON relation.oid = attribute.attrelid
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = $1 AND relation.relname = 'workflow_status'
            AND attribute.attname = 'shard_key' AND NOT attribute.attisdropped
    ) AS sharded,
    EXISTS (
        SELECT
        FROM pg_catalog.pg_class AS relation
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = $2 AND relation.relname = 'schema_version'
    ) AS own_tables;

-- name: shared_versions
SELECT version FROM {schema}.dbos_migrations ORDER BY version;

-- name: own_version
SELECT max(version) FROM {own}.schema_version;

-- name: indexes
-- Those of schema $1. One under construction, or left behind by a failed one, is not valid; one
-- that is changing is becoming valid in a transaction that has yet to end.
SELECT
    index.relname::text AS name,
    relation.relname::text AS "table",
    entry.indisvalid AS valid,
    EXISTS (
        SELECT
        FROM pg_catalog.pg_locks AS locks
        WHERE locks.locktype = 'transactionid' AND locks.granted
            AND locks.transactionid = entry.xmax
    ) AS changing
FROM pg_catalog.pg_index AS entry
JOIN pg_catalog.pg_class AS index ON index.oid = entry.indexrelid
JOIN pg_catalog.pg_class AS relation ON relation.oid = entry.indrelid
JOIN pg_catalog.pg_namespace AS space ON space.oid = index.relnamespace
WHERE space.nspname = $1;
