-- Commands about workflows: what they lock, change and remove. Forks are beside.

-- name: standing_runs
-- How the given workflows stand, locked in the order of their ids; those that do not exist are left
-- out.
SELECT workflow_uuid, status, owner_xid, creator_xid
FROM {schema}.workflow_status
WHERE workflow_uuid = ANY({list:3})
ORDER BY workflow_uuid COLLATE "C"
FOR NO KEY UPDATE;

-- name: standing_children
-- The same of the children of the given ones.
SELECT workflow_uuid, status, owner_xid, creator_xid
FROM {schema}.workflow_status
WHERE parent_workflow_id = ANY({list:3})
ORDER BY workflow_uuid COLLATE "C"
FOR NO KEY UPDATE;

-- name: insert_step
-- Inserts one step row of a run that was found owned, and locked, in the same transaction.
WITH {checkpoints},
fenced AS (SELECT id, owner FROM asked)
{insert_steps:asked};

-- name: cancel
-- Cancels the given workflows, which are locked and have no outcome.
WITH clock AS MATERIALIZED (SELECT {now_ms:4} AS ms),
standing AS (SELECT id AS workflow_uuid FROM {texts:3} AS asked (id))
{cancel_standing};

-- name: resume
-- Enqueues the given workflows, which are locked and have no outcome, on the queue $5.
WITH clock AS MATERIALIZED (SELECT {now_ms:4} AS ms)
UPDATE {schema}.workflow_status
SET status = 'ENQUEUED',
    owner_xid = NULL,
    queue_name = $5::text,
    recovery_attempts = 0,
    workflow_deadline_epoch_ms = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = NULL,
    updated_at = (SELECT ms FROM clock)
WHERE workflow_uuid = ANY({list:3});

-- name: set_delay
-- Moves the instant of the given workflows, which are locked and DELAYED, to $6 or else to $5 from
-- now.
WITH clock AS MATERIALIZED (SELECT {now_ms:4} AS ms)
UPDATE {schema}.workflow_status
SET delay_until_epoch_ms = COALESCE($6::bigint, {later:delay_ms}),
    updated_at = (SELECT ms FROM clock)
FROM (SELECT $5::bigint AS delay_ms) AS given
WHERE workflow_uuid = ANY({list:3});

-- name: set_attributes
-- Replaces the attributes of a workflow by $2.
UPDATE {schema}.workflow_status
SET attributes = $2::text::jsonb, updated_at = {now_ms:3}
WHERE workflow_uuid = $1;

-- name: merge_attributes
-- Sets those attributes of a workflow that stand in $2; the others stay, unless they are no object.
UPDATE {schema}.workflow_status
SET attributes = CASE jsonb_typeof(attributes) WHEN 'object' THEN attributes ELSE '{}'::jsonb END
        || COALESCE($2::text::jsonb, '{}'::jsonb),
    updated_at = {now_ms:3}
WHERE workflow_uuid = $1;

-- name: delete_workflows
-- Removes the given workflows, and by its references their messages, events and streams.
DELETE FROM {schema}.workflow_status WHERE workflow_uuid = ANY({list:3});

-- name: delete_inputs
-- Removes the inputs of the given workflows.
DELETE FROM {schema}.workflow_input WHERE workflow_uuid = ANY({list:3});

-- name: delete_outputs
-- Removes the outcomes of the given workflows.
DELETE FROM {schema}.workflow_output WHERE workflow_uuid = ANY({list:3});

-- name: delete_steps
-- Removes the steps of the given workflows.
DELETE FROM {schema}.operation_outputs WHERE workflow_uuid = ANY({list:3});

-- name: delete_stream_log
-- Forgets which appends from inside steps of the given workflows were made.
DELETE FROM {own}.stream_log WHERE workflow_id = ANY({list:3});
