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

-- fragment: executors
-- By whom PENDING workflows are run, the largest number first; a condition may follow.
SELECT IFNULL(w.executor_id, '') AS executor_id, count(*) AS pending FROM workflow_status w
WHERE w.queue_name = :queue
    AND w.status = 'PENDING'
    AND w.status IN ('ENQUEUED', 'PENDING')
    AND {application_scope}

-- name: executors_of_queue
-- By whom the workflows of a queue are run.
{executors}
GROUP BY w.executor_id
ORDER BY pending DESC, w.executor_id;

-- name: executors_of_partition
-- By whom those of one partition are run.
{executors}
    AND w.queue_partition_key = :partition
GROUP BY w.executor_id
ORDER BY pending DESC, w.executor_id;

-- name: workflows_ahead
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
