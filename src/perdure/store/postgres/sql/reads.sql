-- Reads for waiters and operators.

-- name: settled
-- Of the given workflows, those that have ended, with their outcomes, and the ids without a row.
SELECT
    asked.id AS workflow_uuid, w.status, w.serialization, w.recovery_attempts,
    COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error,
    w.workflow_uuid IS NULL AS missing
FROM {texts:3} AS asked (id)
LEFT JOIN LATERAL (
    SELECT w.workflow_uuid, w.status, w.serialization, w.recovery_attempts, w.output, w.error
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = asked.id
    LIMIT 1
) w ON true
LEFT JOIN LATERAL (
    SELECT o.output, o.error
    FROM {schema}.workflow_output o
    WHERE o.workflow_uuid = asked.id
    LIMIT 1
) o ON true
WHERE w.workflow_uuid IS NULL
    OR w.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: now
-- The database's clock plus an offset.
SELECT {now_ms:1} AS now_ms;

-- name: workflow
-- One workflow, without payloads.
SELECT {workflow_columns:w} FROM {schema}.workflow_status w WHERE w.workflow_uuid = $1;

-- name: running_by_executor
-- Which executors run how many workflows of queue $2, or of the partition $3 of it if that is given,
-- of application $1 or of none; the largest number first.
SELECT COALESCE(w.executor_id, '') AS executor_id, count(*) AS running
FROM {schema}.workflow_status w
WHERE w.queue_name = $2
    AND w.status = 'PENDING'
    AND ($3::text IS NULL OR w.queue_partition_key = $3)
    AND {application_scope:1}
GROUP BY COALESCE(w.executor_id, '')
ORDER BY running DESC, executor_id;

-- name: ahead_in_queue
-- How many ENQUEUED workflows of queue $2 come before the one with priority $3, creation $4 and id
-- $5, up to $6.
SELECT count(*) AS ahead
FROM (
    SELECT
    FROM {schema}.workflow_status w
    WHERE w.queue_name = $2
        AND w.status = 'ENQUEUED'
        AND (w.priority, w.created_at, w.workflow_uuid) < ($3::integer, $4::bigint, $5::text)
        AND {application_scope:1}
    LIMIT $6::bigint
) before;
