-- Registered queues and what is in them. Parameters of statements that write are numbered, those of
-- the others have names.

-- fragment: queue_rows
-- Queues with what of them only our own table has.
SELECT {queue_columns:q}, {setting_columns:s}
FROM queues q
LEFT JOIN perdure_queue_settings s ON s.queue_name = q.name

-- name: queues
-- Every queue of the application or of none, of whoever asks in no name every one; by name.
{queue_rows}
WHERE q.application_name = :application OR q.application_name IS NULL OR :application IS NULL
ORDER BY q.name;

-- name: queue
-- The queue of a name, of whatever application.
{queue_rows}
WHERE q.name = :name;

-- name: is_latest_version
-- Whether :version is the latest registered of this application or of none, or there is none.
SELECT COALESCE({latest_registered} = :version, TRUE) AS is_latest;

-- name: upsert_queue
-- Stores a queue ?2 of the limits ?3 to ?13; one that no application owns becomes that of ?14.
INSERT INTO queues (
    queue_id, name, {limit_columns}, application_name, created_at, updated_at
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15)
ON CONFLICT (name) DO UPDATE
SET ({limit_columns}) = (?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13),
    application_name = COALESCE(application_name, excluded.application_name),
    updated_at = max(excluded.updated_at, updated_at + 1);

-- name: adopt_queue
-- Makes a queue that no application owns one of an application.
UPDATE queues SET application_name = ?2, updated_at = ?3
WHERE name = ?1 AND application_name IS NULL;

-- name: upsert_queue_settings
-- Stores what the shared table has no column for.
INSERT INTO perdure_queue_settings (queue_name, partitioned, max_polling_interval_sec)
VALUES (?1, ?2, ?3)
ON CONFLICT (queue_name) DO UPDATE
SET partitioned = excluded.partitioned,
    max_polling_interval_sec = excluded.max_polling_interval_sec;

-- name: pause_queue
-- Pauses a queue since ?2, or since it is paused already; not any more if ?2 is NULL.
INSERT INTO perdure_queue_settings (queue_name, paused_at) VALUES (?1, ?2)
ON CONFLICT (queue_name) DO UPDATE
SET paused_at = CASE WHEN excluded.paused_at IS NOT NULL
    THEN COALESCE(paused_at, excluded.paused_at) END;

-- name: touch_queue
-- A time of change, ?2 or later, that a queue never had: what is only in our own table changed, and
-- may change back.
UPDATE queues SET updated_at = max(?2, updated_at + 1) WHERE name = ?1;

-- name: delete_queue
-- Forgets a queue.
DELETE FROM queues WHERE name = ?1;

-- name: delete_queue_settings
-- Forgets what only our own table has of it.
DELETE FROM perdure_queue_settings WHERE queue_name = ?1;

-- name: delete_rate_log
-- Forgets the claims of it.
DELETE FROM perdure_rate_log WHERE queue_name = ?1;

-- name: keyless_waiting
-- A row if there is one without a partition key among the first thousand that are ENQUEUED in the
-- queue :name, or that are DELAYED there; of application :application or of none, of all if that is NULL.
SELECT 1 AS found
FROM (
    SELECT * FROM (
        SELECT w.queue_partition_key FROM workflow_status w
        WHERE w.queue_name = :name AND w.status = 'ENQUEUED'
            AND w.status IN ('ENQUEUED', 'PENDING')
            AND ({application_scope} OR :application IS NULL)
        ORDER BY w.priority, w.created_at
        LIMIT 1000
    ) enqueued
    UNION ALL
    SELECT * FROM (
        SELECT w.queue_partition_key FROM workflow_status w
        WHERE w.queue_name = :name AND w.status = 'DELAYED'
            AND ({application_scope} OR :application IS NULL)
        LIMIT 1000
    ) later
) waiting
WHERE waiting.queue_partition_key IS NULL
LIMIT 1;

-- name: queue_depths
-- How many workflows of a queue wait, run, and ended after :since.
SELECT
    :name AS name,
    count(*) FILTER (WHERE w.status = 'ENQUEUED') AS enqueued,
    count(*) FILTER (WHERE w.status = 'PENDING') AS pending,
    min(w.created_at) FILTER (WHERE w.status = 'ENQUEUED') AS oldest_at,
    (
        SELECT count(*) FROM workflow_status w
        WHERE w.status = 'DELAYED' AND w.queue_name = :name
            AND ({application_scope} OR :application IS NULL)
    ) AS delayed,
    (
        SELECT count(*) FROM workflow_status w
        WHERE w.completed_at > :since AND w.queue_name = :name
            AND ({application_scope} OR :application IS NULL)
    ) AS completed
FROM workflow_status w
WHERE w.queue_name = :name AND w.status IN ('ENQUEUED', 'PENDING')
    AND ({application_scope} OR :application IS NULL);
