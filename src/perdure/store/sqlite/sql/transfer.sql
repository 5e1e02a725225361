-- Workflows as documents. What is written comes as a JSON array of objects.

-- name: child_ids
-- The children of the given workflows.
SELECT workflow_uuid AS workflow_id
FROM workflow_status
WHERE parent_workflow_id IN (SELECT value FROM json_each(:ids))
ORDER BY created_at, workflow_uuid;

-- name: exported_workflows
-- The rows of the given workflows with their payloads, in no order.
SELECT
    w.workflow_uuid AS workflow_id, w.status AS state, w.created_at AS created_at_ms,
    w.updated_at AS updated_at_ms, w.name, w.class_name, w.config_name, w.serialization,
    w.recovery_attempts AS attempts, w.queue_name, w.priority,
    w.queue_partition_key AS partition_key, w.deduplication_id, w.executor_id, w.application_name,
    w.application_version, w.application_id, w.started_at_epoch_ms AS started_at_ms,
    w.completed_at AS completed_at_ms, w.delay_until_epoch_ms AS delay_until_ms,
    w.workflow_timeout_ms AS timeout_ms, w.workflow_deadline_epoch_ms AS deadline_ms,
    w.parent_workflow_id, w.forked_from, w.was_forked_from, w.rate_limited, w.schedule_name,
    w.is_debounced, w.debounce_deadline_epoch_ms AS debounce_deadline_ms, w.authenticated_user,
    w.authenticated_roles, w.assumed_role, w.attributes, w.request,
    COALESCE(i.inputs, w.inputs) AS inputs, COALESCE(o.output, w.output) AS output,
    COALESCE(o.error, w.error) AS error
FROM workflow_status w
LEFT JOIN workflow_input i ON i.workflow_uuid = w.workflow_uuid
LEFT JOIN workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: exported_steps
-- The steps of the given workflows, in their order.
SELECT
    workflow_uuid AS workflow_id, function_id AS step_id, function_name AS name, output, error,
    child_workflow_id, started_at_epoch_ms AS started_at_ms,
    completed_at_epoch_ms AS completed_at_ms, serialization, application_name
FROM operation_outputs
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY function_id;

-- name: exported_events
-- The present values of the given workflows, in their order.
SELECT workflow_uuid AS workflow_id, key, value, serialization
FROM workflow_events
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY key;

-- name: exported_event_history
-- What steps of the given workflows published, in their order.
SELECT workflow_uuid AS workflow_id, function_id AS step_id, key, value, serialization
FROM workflow_events_history
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY function_id, key;

-- name: exported_stream_values
-- The stream values of the given workflows, in their order.
SELECT
    workflow_uuid AS workflow_id, key, "offset", value, function_id AS step_id, serialization
FROM streams
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY key, "offset";

-- name: exported_messages
-- The messages of the given workflows, in their order.
SELECT
    destination_uuid AS workflow_id, message_uuid AS message_id, message,
    created_at_epoch_ms AS created_at_ms, topic, serialization, consumed,
    consumed_by_function_id AS consumed_by_step_id
FROM notifications
WHERE destination_uuid IN (SELECT value FROM json_each(:ids))
ORDER BY created_at_epoch_ms, message_uuid;

-- name: exported_appends
-- Which appends from inside steps of the given workflows were made.
SELECT workflow_id, append_id FROM perdure_stream_log
WHERE workflow_id IN (SELECT value FROM json_each(:ids))
ORDER BY append_id;

-- name: creators
-- Who created those of the given workflows that exist.
SELECT workflow_uuid AS workflow_id, creator_xid AS creator
FROM workflow_status
WHERE workflow_uuid IN (SELECT value FROM json_each(:ids));

-- name: deduplication_obstacle
-- A workflow that holds a deduplication id of the given ones on its queue.
SELECT given.workflow_id, given.queue_name, given.deduplication_id, w.workflow_uuid AS holder
FROM (
    SELECT
        json_extract(value, '$.workflow_id') AS workflow_id,
        json_extract(value, '$.queue_name') AS queue_name,
        json_extract(value, '$.deduplication_id') AS deduplication_id
    FROM json_each(:rows)
) given
CROSS JOIN workflow_status w
    ON w.queue_name = given.queue_name AND w.deduplication_id = given.deduplication_id
LIMIT 1;

-- name: message_obstacle
-- A message under the id of one of the given ones.
SELECT given.workflow_id, given.message_id
FROM (
    SELECT
        json_extract(value, '$.workflow_id') AS workflow_id,
        json_extract(value, '$.message_id') AS message_id
    FROM json_each(:rows)
) given
CROSS JOIN notifications n ON n.message_uuid = given.message_id
LIMIT 1;

-- name: import_workflows
-- Inserts rows of workflows that nobody runs.
INSERT INTO workflow_status (
    workflow_uuid, status, created_at, updated_at, name, class_name, config_name, serialization,
    recovery_attempts, queue_name, priority, queue_partition_key, deduplication_id, executor_id,
    application_name, application_version, application_id, started_at_epoch_ms, completed_at,
    delay_until_epoch_ms, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id,
    forked_from, was_forked_from, rate_limited, schedule_name, is_debounced,
    debounce_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes,
    request, creator_xid
)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.state'),
    json_extract(value, '$.created_at_ms'), json_extract(value, '$.updated_at_ms'),
    json_extract(value, '$.name'), json_extract(value, '$.class_name'),
    json_extract(value, '$.config_name'), json_extract(value, '$.serialization'),
    json_extract(value, '$.attempts'), json_extract(value, '$.queue_name'),
    json_extract(value, '$.priority'), json_extract(value, '$.partition_key'),
    json_extract(value, '$.deduplication_id'), json_extract(value, '$.executor_id'),
    json_extract(value, '$.application_name'), json_extract(value, '$.application_version'),
    json_extract(value, '$.application_id'), json_extract(value, '$.started_at_ms'),
    json_extract(value, '$.completed_at_ms'), json_extract(value, '$.delay_until_ms'),
    json_extract(value, '$.timeout_ms'), json_extract(value, '$.deadline_ms'),
    json_extract(value, '$.parent_workflow_id'), json_extract(value, '$.forked_from'),
    json_extract(value, '$.was_forked_from'), json_extract(value, '$.rate_limited'),
    json_extract(value, '$.schedule_name'), json_extract(value, '$.is_debounced'),
    json_extract(value, '$.debounce_deadline_ms'), json_extract(value, '$.authenticated_user'),
    json_extract(value, '$.authenticated_roles'), json_extract(value, '$.assumed_role'),
    json_extract(value, '$.attributes'), json_extract(value, '$.request'), :creator
FROM json_each(:rows);

-- name: import_inputs
-- Stores their inputs.
INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT json_extract(value, '$.workflow_id'), json_extract(value, '$.inputs'), :now
FROM json_each(:rows);

-- name: import_outputs
-- Stores the outcomes of those that have one.
INSERT INTO workflow_output (workflow_uuid, output, error, retention_timestamp)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.output'),
    json_extract(value, '$.error'), :now
FROM json_each(:rows)
WHERE json_extract(value, '$.state') IN ('SUCCESS', 'ERROR')
    OR json_extract(value, '$.output') IS NOT NULL
    OR json_extract(value, '$.error') IS NOT NULL;

-- name: import_steps
-- Inserts steps.
INSERT INTO operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.step_id'),
    json_extract(value, '$.name'), json_extract(value, '$.output'), json_extract(value, '$.error'),
    json_extract(value, '$.child_workflow_id'), json_extract(value, '$.started_at_ms'),
    json_extract(value, '$.completed_at_ms'), json_extract(value, '$.serialization'),
    json_extract(value, '$.application_name'), :now
FROM json_each(:rows);

-- name: import_events
-- Inserts present values.
INSERT INTO workflow_events (workflow_uuid, key, value, serialization)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.key'),
    json_extract(value, '$.value'), json_extract(value, '$.serialization')
FROM json_each(:rows);

-- name: import_event_history
-- Inserts what steps published.
INSERT INTO workflow_events_history (workflow_uuid, function_id, key, value, serialization)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.step_id'),
    json_extract(value, '$.key'), json_extract(value, '$.value'),
    json_extract(value, '$.serialization')
FROM json_each(:rows);

-- name: import_stream_values
-- Inserts stream values.
INSERT INTO streams (
    workflow_uuid, key, "offset", value, function_id, serialization
)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.key'),
    json_extract(value, '$.offset'), json_extract(value, '$.value'),
    json_extract(value, '$.step_id'), json_extract(value, '$.serialization')
FROM json_each(:rows);

-- name: import_messages
-- Inserts messages.
INSERT INTO notifications (
    destination_uuid, message_uuid, message, created_at_epoch_ms, topic, serialization, consumed,
    consumed_by_function_id
)
SELECT
    json_extract(value, '$.workflow_id'), json_extract(value, '$.message_id'),
    json_extract(value, '$.message'), json_extract(value, '$.created_at_ms'),
    json_extract(value, '$.topic'), json_extract(value, '$.serialization'),
    json_extract(value, '$.consumed'), json_extract(value, '$.consumed_by_step_id')
FROM json_each(:rows);

-- name: import_appends
-- Logs appends from inside steps.
INSERT INTO perdure_stream_log (workflow_id, append_id)
SELECT json_extract(value, '$.workflow_id'), json_extract(value, '$.append_id')
FROM json_each(:rows);
