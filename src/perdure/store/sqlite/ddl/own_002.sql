-- Version 2 of our own tables: queues.

-- name: add_serves
-- What a process can run, as JSON: its version, the queues it serves (null: all) and its functions.
ALTER TABLE perdure_leases ADD COLUMN serves TEXT;

-- name: create_queue_settings
-- What is set for a queue that the shared table has no column for. paused_at is a time of the
-- database's clock in milliseconds, NULL unless the queue is paused.
CREATE TABLE perdure_queue_settings (
    queue_name TEXT NOT NULL PRIMARY KEY,
    partitioned BOOLEAN NOT NULL DEFAULT FALSE,
    max_polling_interval_sec REAL,
    paused_at INTEGER
);

-- name: create_rate_log
-- Claims from queues with a rate limit, for as long as a window needs them: what happens to the
-- workflows afterwards does not change how many were claimed.
CREATE TABLE perdure_rate_log (
    queue_name TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    workflow_id TEXT NOT NULL,
    partition_key TEXT,
    PRIMARY KEY (queue_name, started_at, workflow_id)
) WITHOUT ROWID;

-- name: create_rate_log_partitions
-- Finds the claims of one partition in a window.
CREATE INDEX perdure_rate_log_partitions
ON perdure_rate_log (queue_name, partition_key, started_at)
WHERE partition_key IS NOT NULL;
