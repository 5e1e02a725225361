-- What a migration and a check read before they decide. They need no right beyond SELECT.
-- {schema} and {own} are the quoted names of the shared schema and of our own.

-- name: catalogue
-- $1 the shared schema, $2 our own, $3 the shared tables' names. An index under construction, or
-- left behind by a failed one, is invalid.
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
    ARRAY(
        SELECT relation.relname::text
        FROM pg_catalog.pg_index AS index
        JOIN pg_catalog.pg_class AS relation ON relation.oid = index.indexrelid
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = $1 AND index.indisvalid
    ) AS valid_indexes,
    ARRAY(
        SELECT relation.relname::text
        FROM pg_catalog.pg_index AS index
        JOIN pg_catalog.pg_class AS relation ON relation.oid = index.indexrelid
        JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
        WHERE space.nspname = $1 AND NOT index.indisvalid
    ) AS invalid_indexes,
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

-- name: being_built
-- Whether a table that one of the indexes $2 of schema $1 belongs to is under the lock that building
-- an index without blocking takes (as VACUUM does): what looks broken may be under construction.
SELECT EXISTS (
    SELECT
    FROM pg_catalog.pg_locks AS held
    JOIN pg_catalog.pg_database AS here ON here.oid = held.database
    JOIN pg_catalog.pg_index AS index ON index.indrelid = held.relation
    JOIN pg_catalog.pg_class AS relation ON relation.oid = index.indexrelid
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relation.relnamespace
    WHERE here.datname = current_database() AND space.nspname = $1
        AND relation.relname = ANY ($2::text[]) AND held.granted
        AND held.mode = 'ShareUpdateExclusiveLock' AND held.pid <> pg_backend_pid()
);
