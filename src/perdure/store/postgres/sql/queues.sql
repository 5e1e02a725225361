-- Registered queues and what is in them. The lock on a queue's row is the one that claims from it
-- hold.

-- fragment: registered
-- Queues of an application and of none. The internal ones have no row, whatever stands there.
(q.name NOT IN ({internal_queues})
    AND (q.application_name = ${arg} OR q.application_name IS NULL))

-- fragment: visible
-- The same; to whoever looks in no application's name, all.
({registered:{arg}} OR (${arg}::text IS NULL AND q.name NOT IN ({internal_queues})))

-- name: lock_queue
-- The row of the queue $1 of any application, locked against claims and whoever else changes it.
SELECT q.name FROM {schema}.queues q WHERE q.name = $1 FOR UPDATE;

-- name: queue
-- The queue $1 of any application with our own settings of it. A statement of its own: one that
-- waited for the lock would show the settings as they were before.
SELECT {queue_columns:q}, {setting_columns:s}
FROM {schema}.queues q
LEFT JOIN {own}.queue_settings s ON s.queue_name = q.name
WHERE q.name = $1;

-- name: queues
-- Every queue of application $1 or of none.
SELECT {queue_columns:q}, {setting_columns:s}
FROM {schema}.queues q
LEFT JOIN {own}.queue_settings s ON s.queue_name = q.name
WHERE {visible:1}
ORDER BY q.name;

-- name: is_latest_version
-- Whether $1 is the latest registered version of application $2 or of none, or there is none.
SELECT COALESCE({latest_version:2} = $1, true) AS is_latest;

-- name: insert_queue
-- A new queue, unless another process was faster. $2 is the application, $3 the clock's offset,
-- what follows are its limits.
INSERT INTO {schema}.queues (
    queue_id, name, application_name, created_at, updated_at, {limit_columns}
)
SELECT
    gen_random_uuid()::text, $1::text, $2::text, ms, ms, $4::integer, $5::integer, $6::integer,
    $7::double precision, $8::boolean, $9::boolean, $10::double precision, $11::integer,
    $12::integer, $13::integer, $14::double precision
FROM (SELECT {now_ms:3} AS ms) clock
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: update_queue
-- The same for one that stands. It becomes the application's if it was nobody's.
UPDATE {schema}.queues
SET application_name = COALESCE(application_name, $2::text),
    updated_at = GREATEST({now_ms:3}, updated_at + 1),
    ({limit_columns}) = (
        $4::integer, $5::integer, $6::integer, $7::double precision, $8::boolean, $9::boolean,
        $10::double precision, $11::integer, $12::integer, $13::integer, $14::double precision
    )
WHERE name = $1;

-- name: adopt_queue
-- Makes a queue that is nobody's the application's.
UPDATE {schema}.queues
SET application_name = $2, updated_at = {now_ms:3}
WHERE name = $1 AND application_name IS NULL;

-- name: upsert_queue_settings
-- Stores what of a queue only our own table has. Whether it is paused stays.
INSERT INTO {own}.queue_settings (queue_name, partitioned, max_polling_interval_sec)
VALUES ($1, $2, $3)
ON CONFLICT (queue_name) DO UPDATE
SET partitioned = EXCLUDED.partitioned,
    max_polling_interval_sec = EXCLUDED.max_polling_interval_sec;

-- name: pause_queue
-- Pauses a queue, from now on if it is not paused, or lets it go on.
INSERT INTO {own}.queue_settings AS s (queue_name, paused_at)
SELECT $1::text, CASE WHEN $2::boolean THEN {now_ms:3} END
ON CONFLICT (queue_name) DO UPDATE
SET paused_at = CASE WHEN $2::boolean THEN COALESCE(s.paused_at, EXCLUDED.paused_at) END;

-- name: touch_queue
-- A time of change that the queue $1 never had: what is only in our own table changed, and may change
-- back. $2 is the clock's offset.
UPDATE {schema}.queues SET updated_at = GREATEST({now_ms:2}, updated_at + 1) WHERE name = $1;

-- name: delete_queue
-- Deletes the row of a queue of the application or of none.
DELETE FROM {schema}.queues q WHERE q.name = $1 AND {visible:2} RETURNING q.name;

-- name: delete_queue_settings
-- Deletes what our own table has of a queue.
DELETE FROM {own}.queue_settings WHERE queue_name = $1;

-- name: delete_rate_log
-- Forgets the claims of a queue.
DELETE FROM {own}.rate_log WHERE queue_name = $1;

-- name: keyless_waiting
-- A row if there is one without a partition key among the first thousand that are ENQUEUED in the
-- queue $1, or that are DELAYED there; of application $2 or of none, of all if that is NULL.
SELECT 1 AS found
FROM (
    SELECT * FROM (
        SELECT w.queue_partition_key FROM {schema}.workflow_status w
        WHERE w.queue_name = $1 AND w.status = 'ENQUEUED'
            AND ({application_scope:2} OR $2::text IS NULL)
        ORDER BY w.priority, w.created_at
        LIMIT 1000
    ) enqueued
    UNION ALL
    SELECT * FROM (
        SELECT w.queue_partition_key FROM {schema}.workflow_status w
        WHERE w.queue_name = $1 AND w.status = 'DELAYED'
            AND ({application_scope:2} OR $2::text IS NULL)
        LIMIT 1000
    ) later
) waiting
WHERE waiting.queue_partition_key IS NULL
LIMIT 1;

-- name: queue_depths
-- What is in each of the queues $1, in their order, of application $2 or of none, of all if that is
-- NULL. Completed are those that ended since $3 milliseconds; $4 is the clock's offset.
WITH clock AS MATERIALIZED (SELECT {now_ms:4} AS ms),
counted AS (
    SELECT
        w.queue_name,
        count(*) FILTER (WHERE w.status = 'ENQUEUED') AS enqueued,
        count(*) FILTER (WHERE w.status = 'PENDING') AS pending,
        min(w.created_at) FILTER (WHERE w.status = 'ENQUEUED') AS oldest_at
    FROM {schema}.workflow_status w
    WHERE w.queue_name = ANY($1::text[])
        AND w.status IN ('ENQUEUED', 'PENDING')
        AND ({application_scope:2} OR $2::text IS NULL)
    GROUP BY w.queue_name
),
later AS (
    SELECT w.queue_name, count(*) AS delayed
    FROM {schema}.workflow_status w
    WHERE w.queue_name = ANY($1::text[])
        AND w.status = 'DELAYED'
        AND ({application_scope:2} OR $2::text IS NULL)
    GROUP BY w.queue_name
),
ended AS (
    SELECT w.queue_name, count(*) AS completed
    FROM {schema}.workflow_status w
    WHERE w.queue_name = ANY($1::text[])
        AND w.completed_at > (SELECT ms FROM clock) - $3::bigint
        AND w.status NOT IN ('ENQUEUED', 'PENDING', 'DELAYED')
        AND ({application_scope:2} OR $2::text IS NULL)
    GROUP BY w.queue_name
)
SELECT
    asked.name,
    COALESCE(counted.enqueued, 0) AS enqueued,
    COALESCE(later.delayed, 0) AS delayed,
    COALESCE(counted.pending, 0) AS pending,
    counted.oldest_at,
    COALESCE(ended.completed, 0) AS completed
FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, place)
LEFT JOIN counted ON counted.queue_name = asked.name
LEFT JOIN later ON later.queue_name = asked.name
LEFT JOIN ended ON ended.queue_name = asked.name
ORDER BY asked.place;
