-- Version 2 of our own tables: queues.

-- name: add_serves
-- What a process can run, as JSON: its version, the queues it serves (null: all) and its functions.
ALTER TABLE {own}.leases ADD COLUMN serves text;

-- name: create_queue_settings
-- What is set for a queue that the shared table has no column for. paused_at is a time of the
-- database's clock in milliseconds, NULL unless the queue is paused.
CREATE TABLE {own}.queue_settings (
    queue_name text PRIMARY KEY,
    partitioned boolean NOT NULL DEFAULT false,
    max_polling_interval_sec double precision,
    paused_at bigint
);

-- name: create_rate_log
-- Claims from queues with a rate limit, for as long as a window needs them: what happens to the
-- workflows afterwards does not change how many were claimed.
CREATE TABLE {own}.rate_log (
    queue_name text NOT NULL,
    started_at bigint NOT NULL,
    workflow_id text NOT NULL,
    partition_key text,
    PRIMARY KEY (queue_name, started_at, workflow_id)
);

-- name: create_rate_log_partitions
-- Finds the claims of one partition in a window.
CREATE INDEX rate_log_partitions ON {own}.rate_log (queue_name, partition_key, started_at)
WHERE partition_key IS NOT NULL;
