-- Removing workflows that ended long ago. All parameters are named: :before is the instant before
-- which they ended, :states and :names are lists, of which an empty one of names means all.

-- name: expired_horizon
-- When the row ended that is :sight rows behind the first that ended at :since or later.
SELECT completed_at FROM workflow_status
WHERE completed_at >= :since AND completed_at < :before
ORDER BY completed_at
LIMIT 1 OFFSET :sight;

-- fragment: wanted
-- Ended workflows that are to go as far as they themselves are concerned.
w.completed_at < :before
    AND w.status IN (SELECT value FROM json_each(:states))
    AND (:names = '[]' OR w.name IN (SELECT value FROM json_each(:names)))
    AND {application_scope}

-- fragment: expired_rows
-- The wanted from :since to :horizon whose parent ended long ago or is gone.
FROM workflow_status w
LEFT JOIN workflow_status parent ON parent.workflow_uuid = w.parent_workflow_id
WHERE w.completed_at >= :since
    AND w.completed_at <= :horizon
    AND {wanted}
    AND (parent.workflow_uuid IS NULL OR (
        parent.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
        AND parent.completed_at < :before
    ))

-- name: expired_workflows
-- Up to :limit of them, the longest ended first.
SELECT w.workflow_uuid, w.completed_at
{expired_rows}
ORDER BY w.completed_at
LIMIT :limit;

-- name: count_expired
-- How many there are.
SELECT count(*) AS number
{expired_rows};

-- name: kept_since
-- When the last of the :number newest of the wanted ended.
SELECT w.completed_at FROM workflow_status w
WHERE {wanted}
ORDER BY w.completed_at DESC
LIMIT 1 OFFSET :number - 1;

-- name: forget_claims
-- Forgets up to :limit logged claims before :before that no window of their queue reaches back to.
DELETE FROM perdure_rate_log
WHERE (queue_name, started_at, workflow_id) IN (
    SELECT l.queue_name, l.started_at, l.workflow_id
    FROM perdure_rate_log l
    LEFT JOIN queues q ON q.name = l.queue_name
    WHERE l.started_at < :before
        AND l.started_at < :now - 2000 * max(
            COALESCE(q.rate_limit_period_sec, 0), COALESCE(q.partition_rate_limit_period_sec, 0)
        )
    LIMIT :limit
);
