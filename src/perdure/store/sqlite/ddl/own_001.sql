-- Version 1 of our own tables.

-- name: create_schema_version
-- One row for each version of our own tables, with the time it was reached.
CREATE TABLE perdure_schema_version (
    version INTEGER NOT NULL PRIMARY KEY,
    applied_at INTEGER NOT NULL
);

-- name: create_leases
-- One row for each living process start. Times are milliseconds of the database's clock. taken_at
-- is set by whoever takes the boot over; lock_path is the file beside the database whose lock the
-- process holds, if it could get one.
CREATE TABLE perdure_leases (
    boot_id TEXT NOT NULL PRIMARY KEY,
    executor_id TEXT NOT NULL,
    application_name TEXT NOT NULL,
    renewals INTEGER NOT NULL DEFAULT 0,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    period_ms INTEGER NOT NULL,
    taken_at INTEGER,
    lock_path TEXT,
    created_at INTEGER NOT NULL
);
