-- The history of runs. Parameters are numbered in the order of the items' fields.

-- name: record
-- Inserts one step row if its run is PENDING under the owner and the step id is free.
INSERT INTO operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization,
    application_name, retention_timestamp
)
SELECT ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
WHERE EXISTS (
    SELECT 1 FROM workflow_status
    WHERE workflow_uuid = ?1 AND status = 'PENDING' AND owner_xid = ?2
)
ON CONFLICT DO NOTHING;

-- name: insert_step
-- Inserts one step row of a run that was found owned in the same transaction, if its id is free.
-- Cheaper for each row of a batch than checking the run with it.
INSERT INTO operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization,
    application_name, retention_timestamp
) VALUES (?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT DO NOTHING;

-- name: delete_step
-- Forgets one step.
DELETE FROM operation_outputs WHERE workflow_uuid = ?1 AND function_id = ?2;

-- name: standing_steps
-- The row under a step id.
SELECT {step_columns} FROM operation_outputs WHERE workflow_uuid = ?1 AND function_id = ?2;

-- name: history_page
-- The next steps of one workflow after a step id.
SELECT {step_columns} FROM operation_outputs
WHERE workflow_uuid = ?1 AND function_id > ?2
ORDER BY function_id
LIMIT ?3;
