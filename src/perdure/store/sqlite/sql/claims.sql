-- Taking work from queues. Parameters are named but for those of statements that are executed once
-- for each row.

-- fragment: application_scope
-- Rows of this application, and those that no application has claimed.
(w.application_name = :application OR w.application_name IS NULL)

-- fragment: latest_registered
-- The version of this application that was registered last.
(
    SELECT v.version_name FROM application_versions v
    WHERE v.application_name = :application OR v.application_name IS NULL
    ORDER BY v.version_timestamp DESC, v.rowid DESC
    LIMIT 1
)

-- fragment: claimable
-- What a process of this application and version may claim: a row of its version, or one of no
-- version if its own is the latest registered; and only of functions it registered. The doubled
-- condition on the status is what makes SQLite see that the partial index applies.
w.status = 'ENQUEUED'
    AND w.status IN ('ENQUEUED', 'PENDING')
    AND {application_scope}
    AND (w.application_version = :version OR (
        w.application_version IS NULL AND :version = COALESCE({latest_registered}, :version)
    ))
    AND (w.name, IFNULL(w.class_name, ''), IFNULL(w.config_name, '')) IN (
        SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
        FROM json_each(:keys)
    )

-- fragment: has_steps
-- Whether the workflow has a recorded step.
EXISTS (
    SELECT 1 FROM operation_outputs o WHERE o.workflow_uuid = w.workflow_uuid
) AS may_have_steps

-- name: claim_candidates
-- The first claimable rows of one queue, in the order of claims. The index gives the order up to
-- the id, so the cost does not grow with what waits behind them.
SELECT {claimed_columns:w}, w.priority, COALESCE(i.inputs, w.inputs) AS inputs, {has_steps}
FROM (
    SELECT w.rowid AS place FROM workflow_status w
    WHERE w.queue_name = :queue AND {claimable}
    ORDER BY w.priority, w.created_at, w.workflow_uuid
    LIMIT :limit
) AS first
JOIN workflow_status w ON w.rowid = first.place
LEFT JOIN workflow_input i ON i.workflow_uuid = w.workflow_uuid
ORDER BY w.priority, w.created_at, w.workflow_uuid;

-- name: claim_run
-- Takes one row that was found claimable in the same transaction.
UPDATE workflow_status
SET status = 'PENDING',
    owner_xid = ?2,
    executor_id = ?3,
    application_version = ?4,
    application_name = ?5,
    started_at_epoch_ms = ?6,
    updated_at = ?6,
    rate_limited = ?9,
    recovery_attempts = ?7,
    workflow_deadline_epoch_ms = ?8
WHERE workflow_uuid = ?1;

-- name: claimed_before
-- The rows that bear the token of a claim whose answer was lost.
SELECT {claimed_columns:w}, w.priority, COALESCE(i.inputs, w.inputs) AS inputs, {has_steps}
FROM workflow_status w
LEFT JOIN workflow_input i ON i.workflow_uuid = w.workflow_uuid
WHERE w.status = 'PENDING' AND w.owner_xid = :token;
