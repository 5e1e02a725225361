-- Commands about workflows: what they look at, change and remove. Forks are beside. Parameters are
-- named.

-- name: standing_runs
-- How the given workflows stand; those that do not exist are left out.
SELECT workflow_uuid, status, owner_xid, creator_xid
FROM workflow_status
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY workflow_uuid;

-- name: standing_children
-- The same of the children of the given ones.
SELECT workflow_uuid, status, owner_xid, creator_xid
FROM workflow_status
WHERE parent_workflow_id IN (SELECT value FROM json_each(:ids))
ORDER BY workflow_uuid;

-- name: cancel
-- Cancels the given workflows, which have no outcome.
UPDATE workflow_status
SET status = 'CANCELLED',
    owner_xid = NULL,
    queue_name = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = :now,
    updated_at = :now
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: resume
-- Enqueues the given workflows, which have no outcome, on a queue.
UPDATE workflow_status
SET status = 'ENQUEUED',
    owner_xid = NULL,
    queue_name = :queue,
    recovery_attempts = 0,
    workflow_deadline_epoch_ms = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = NULL,
    updated_at = :now
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: set_delay
-- Moves the instant of the given workflows, which are DELAYED.
UPDATE workflow_status
SET delay_until_epoch_ms = :until, updated_at = :now
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: attributes
-- The attributes of a workflow.
SELECT attributes FROM workflow_status WHERE workflow_uuid = :id;

-- name: set_attributes
-- Replaces the attributes of a workflow.
UPDATE workflow_status
SET attributes = :attributes, updated_at = :now
WHERE workflow_uuid = :id;

-- name: delete_workflows
-- Removes the given workflows, and by its references their messages, events and streams.
DELETE FROM workflow_status WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: delete_inputs
-- Removes the inputs of the given workflows.
DELETE FROM workflow_input WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: delete_outputs
-- Removes the outcomes of the given workflows.
DELETE FROM workflow_output WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: delete_steps
-- Removes the steps of the given workflows.
DELETE FROM operation_outputs WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: delete_stream_log
-- Forgets which appends from inside steps of the given workflows were made.
DELETE FROM perdure_stream_log WHERE workflow_id IN (SELECT value FROM json_each(:ids));
