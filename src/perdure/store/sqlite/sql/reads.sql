-- Reads for waiters and operators.

-- name: settled
-- Of the given workflows, those that have ended, with their outcomes, and the ids without a row.
SELECT
    ids.value AS workflow_uuid, w.status, w.serialization, w.recovery_attempts,
    COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error,
    w.workflow_uuid IS NULL AS missing
FROM json_each(:ids) ids
LEFT JOIN workflow_status w ON w.workflow_uuid = ids.value
LEFT JOIN workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid IS NULL
    OR w.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: workflow
-- One workflow.
SELECT {workflow_columns:w} FROM workflow_status w WHERE w.workflow_uuid = :id;

-- name: running_by_executor
-- Which executors run how many workflows of a queue, or of the :partition of it if that is given; the
-- largest number first.
SELECT IFNULL(w.executor_id, '') AS executor_id, count(*) AS running FROM workflow_status w
WHERE w.queue_name = :queue
    AND w.status = 'PENDING'
    AND w.status IN ('ENQUEUED', 'PENDING')
    AND (:partition IS NULL OR w.queue_partition_key = :partition)
    AND {application_scope}
GROUP BY IFNULL(w.executor_id, '')
ORDER BY running DESC, 1;

-- name: ahead_in_queue
-- How many workflows of a queue come before one that would be claimed in its place, :most at most.
SELECT count(*) AS ahead FROM (
    SELECT 1 FROM workflow_status w
    WHERE w.queue_name = :queue
        AND w.status = 'ENQUEUED'
        AND w.status IN ('ENQUEUED', 'PENDING')
        AND {application_scope}
        AND (w.priority, w.created_at, w.workflow_uuid) < (:priority, :created, :id)
    LIMIT :most
);
