-- Moving what is due and ending what is overdue. All parameters are named.

-- name: due_workflows
-- DELAYED rows whose time has come, the longest due first.
SELECT w.rowid AS place, w.queue_name FROM workflow_status w
WHERE w.status = 'DELAYED' AND w.delay_until_epoch_ms <= :now AND {application_scope}
ORDER BY w.delay_until_epoch_ms
LIMIT :limit;

-- name: enqueue_due
-- Makes rows found due ENQUEUED. `updated_at` stays, as the other SDKs leave it.
UPDATE workflow_status
SET status = 'ENQUEUED',
    deduplication_id = CASE WHEN is_debounced THEN NULL ELSE deduplication_id END
WHERE rowid IN (SELECT value FROM json_each(:places));

-- name: overdue_workflows
-- Rows whose deadline has passed, the longest first; PENDING ones are given :grace milliseconds
-- more, in which the process that runs them ends them.
SELECT w.workflow_uuid FROM workflow_status w
WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
    AND w.workflow_deadline_epoch_ms IS NOT NULL
    AND w.workflow_deadline_epoch_ms <= :now
    AND (w.status <> 'PENDING' OR w.workflow_deadline_epoch_ms <= :now - :grace)
    AND {application_scope}
ORDER BY w.workflow_deadline_epoch_ms
LIMIT :limit;

-- fragment: latest_ms
-- The largest number of a column: where sums of instants stop.
9223372036854775807

-- name: next_sweep
-- When the next row is due or overdue. Of the deadlines only those that follow the first one within
-- :grace can matter.
SELECT min(at) AS next_at FROM (
    SELECT * FROM (
        SELECT w.delay_until_epoch_ms AS at FROM workflow_status w
        WHERE w.status = 'DELAYED' AND w.delay_until_epoch_ms IS NOT NULL AND {application_scope}
        ORDER BY w.delay_until_epoch_ms
        LIMIT 1
    )
    UNION ALL
    SELECT min(
        w.workflow_deadline_epoch_ms + CASE WHEN w.status = 'PENDING' THEN :grace ELSE 0 END,
        {latest_ms}
    )
    FROM workflow_status w
    WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
        AND w.workflow_deadline_epoch_ms IS NOT NULL
        AND {application_scope}
        AND w.workflow_deadline_epoch_ms <= :grace + (
            SELECT w.workflow_deadline_epoch_ms FROM workflow_status w
            WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
                AND w.workflow_deadline_epoch_ms IS NOT NULL
                AND {application_scope}
            ORDER BY w.workflow_deadline_epoch_ms
            LIMIT 1
        )
);
