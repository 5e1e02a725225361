-- Version 1 of our own tables, in a schema of their own beside the shared one.
-- {own} is its quoted name.

-- name: create_schema_version
-- One row for each version of our own tables, with the time it was reached.
CREATE TABLE {own}.schema_version (
    version integer PRIMARY KEY,
    applied_at bigint NOT NULL
);

-- name: create_leases
-- One row for each living process start. Times are milliseconds of the database's clock. taken_at
-- is set by whoever takes the boot over; lock_key, backend_pid and server_started_at describe the
-- session advisory lock the process holds, if it could get one.
CREATE TABLE {own}.leases (
    boot_id text PRIMARY KEY,
    executor_id text NOT NULL,
    application_name text NOT NULL,
    renewals bigint NOT NULL DEFAULT 0,
    renewed_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    period_ms bigint NOT NULL,
    taken_at bigint,
    lock_key bigint,
    backend_pid integer,
    server_started_at bigint,
    created_at bigint NOT NULL
);
