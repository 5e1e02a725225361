-- Reads for waiters and operators.

-- name: settled
-- Of the given workflows, those that have ended, with their outcomes, and the ids without a row.
SELECT
    asked.id AS workflow_uuid, w.status, w.serialization, w.recovery_attempts,
    COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error,
    w.workflow_uuid IS NULL AS missing
FROM {texts:3} AS asked (id)
LEFT JOIN {schema}.workflow_status w ON w.workflow_uuid = asked.id
LEFT JOIN {schema}.workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid IS NULL
    OR w.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: now
-- The database's clock plus an offset.
SELECT {now_ms:1} AS now_ms;
