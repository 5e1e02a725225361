-- The life of a run. Parameters of what is executed once for each item of a batch are numbered;
-- the others are named.

-- name: insert_workflow
-- Inserts one workflow; changes no row if its id, or its queue's deduplication id, is taken.
INSERT INTO workflow_status (
    workflow_uuid, status, name, class_name, config_name, executor_id,
    application_version, application_id, application_name,
    authenticated_user, authenticated_roles, assumed_role,
    recovery_attempts, priority, queue_name, deduplication_id, queue_partition_key,
    delay_until_epoch_ms, workflow_timeout_ms, workflow_deadline_epoch_ms,
    parent_workflow_id, serialization, creator_xid, owner_xid, attributes, is_debounced,
    debounce_deadline_epoch_ms, created_at, updated_at
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?28
)
ON CONFLICT DO NOTHING;

-- name: latest_creation
-- The latest time of creation that is not after ?1.
SELECT created_at FROM workflow_status WHERE created_at <= ?1 ORDER BY created_at DESC LIMIT 1;

-- name: insert_input
-- Stores the inputs of a workflow just inserted. Whatever stands there was left by a deleted one.
INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)
VALUES (?1, ?2, ?3)
ON CONFLICT (workflow_uuid) DO UPDATE
SET inputs = excluded.inputs, retention_timestamp = excluded.retention_timestamp;

-- name: standing_workflows
-- The row under an id.
SELECT {standing_columns} FROM workflow_status WHERE workflow_uuid = ?1;

-- name: deduplication_holder
-- The row that holds a deduplication id on a queue.
SELECT {standing_columns} FROM workflow_status
WHERE queue_name = ?1 AND deduplication_id = ?2;

-- name: owned_run
-- Whether a run is PENDING under an owner.
SELECT 1 FROM workflow_status
WHERE workflow_uuid = ?1 AND status = 'PENDING' AND owner_xid = ?2;

-- name: finish
-- Ends an owned run; endings without an outcome also leave the queue.
UPDATE workflow_status
SET status = ?3,
    owner_xid = NULL,
    deduplication_id = NULL,
    completed_at = ?4,
    updated_at = ?4,
    queue_name = CASE WHEN ?3 IN ('SUCCESS', 'ERROR') THEN queue_name END,
    started_at_epoch_ms = CASE WHEN ?3 IN ('SUCCESS', 'ERROR') THEN started_at_epoch_ms END
WHERE workflow_uuid = ?1 AND status = 'PENDING' AND owner_xid = ?2;

-- name: insert_output
-- Stores the outcome of a run just ended, over what an earlier life of it left.
INSERT INTO workflow_output (workflow_uuid, output, error, retention_timestamp)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (workflow_uuid) DO UPDATE
SET output = excluded.output, error = excluded.error,
    retention_timestamp = excluded.retention_timestamp;

-- name: standing_outcomes
-- How one workflow stands.
SELECT {outcome_columns:w}, COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error
FROM workflow_status w
LEFT JOIN workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid = ?1;

-- name: release
-- Gives an owned run back: DELAYED until ?3 if that is a time, else ENQUEUED at once; ?4 says
-- whether the attempt is given back.
UPDATE workflow_status
SET status = CASE WHEN ?3 IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END,
    delay_until_epoch_ms = COALESCE(?3, delay_until_epoch_ms),
    owner_xid = NULL,
    started_at_epoch_ms = NULL,
    queue_name = COALESCE(queue_name, ?5),
    recovery_attempts = MAX(COALESCE(recovery_attempts, 0) - ?4, 0),
    updated_at = ?6
WHERE workflow_uuid = ?1 AND status = 'PENDING' AND owner_xid = ?2;

-- name: lost_runs
-- Of the given [id, owner] pairs, the ids whose row is not PENDING under that owner.
SELECT f.id AS workflow_uuid
FROM (
    SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS owner
    FROM json_each(:fences)
) f
WHERE NOT EXISTS (
    SELECT 1 FROM workflow_status w
    WHERE w.workflow_uuid = f.id AND w.status = 'PENDING' AND w.owner_xid = f.owner
);

-- name: owned_runs
-- Every PENDING row of an executor that has an owner.
SELECT workflow_uuid, owner_xid FROM workflow_status
WHERE status = 'PENDING' AND executor_id = :executor AND owner_xid IS NOT NULL;
