-- Workflows as documents. What is written comes as $1, the text of a JSON array of objects.

-- name: child_ids
-- The children of the given workflows.
SELECT workflow_uuid AS workflow_id
FROM {schema}.workflow_status
WHERE parent_workflow_id = ANY({list:3})
ORDER BY created_at, workflow_uuid COLLATE "C";

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
FROM {schema}.workflow_status w
LEFT JOIN {schema}.workflow_input i ON i.workflow_uuid = w.workflow_uuid
LEFT JOIN {schema}.workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid = ANY({list:3});

-- name: exported_steps
-- The steps of the given workflows, in their order.
SELECT
    workflow_uuid AS workflow_id, function_id AS step_id, function_name AS name, output, error,
    child_workflow_id, started_at_epoch_ms AS started_at_ms,
    completed_at_epoch_ms AS completed_at_ms, serialization, application_name
FROM {schema}.operation_outputs
WHERE workflow_uuid = ANY({list:3})
ORDER BY function_id;

-- name: exported_events
-- The present values of the given workflows, in their order.
SELECT workflow_uuid AS workflow_id, key, value, serialization
FROM {schema}.workflow_events
WHERE workflow_uuid = ANY({list:3})
ORDER BY key COLLATE "C";

-- name: exported_event_history
-- What steps of the given workflows published, in their order.
SELECT workflow_uuid AS workflow_id, function_id AS step_id, key, value, serialization
FROM {schema}.workflow_events_history
WHERE workflow_uuid = ANY({list:3})
ORDER BY function_id, key COLLATE "C";

-- name: exported_stream_values
-- The stream values of the given workflows, in their order.
SELECT
    workflow_uuid AS workflow_id, key, "offset", value, function_id AS step_id, serialization
FROM {schema}.streams
WHERE workflow_uuid = ANY({list:3})
ORDER BY key COLLATE "C", "offset";

-- name: exported_messages
-- The messages of the given workflows, in their order.
SELECT
    destination_uuid AS workflow_id, message_uuid AS message_id, message,
    created_at_epoch_ms AS created_at_ms, topic, serialization, consumed,
    consumed_by_function_id AS consumed_by_step_id
FROM {schema}.notifications
WHERE destination_uuid = ANY({list:3})
ORDER BY created_at_epoch_ms, message_uuid COLLATE "C";

-- name: exported_appends
-- Which appends from inside steps of the given workflows were made.
SELECT workflow_id, append_id FROM {own}.stream_log
WHERE workflow_id = ANY({list:3})
ORDER BY append_id COLLATE "C";

-- name: creators
-- Who created those of the given workflows that exist.
SELECT workflow_uuid AS workflow_id, creator_xid AS creator
FROM {schema}.workflow_status
WHERE workflow_uuid = ANY({list:3});

-- name: deduplication_obstacle
-- A workflow that holds a deduplication id of the given ones on its queue.
SELECT given.workflow_id, given.queue_name, given.deduplication_id, w.workflow_uuid AS holder
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, queue_name text, deduplication_id text
)
CROSS JOIN LATERAL (
    SELECT holder.workflow_uuid FROM {schema}.workflow_status holder
    WHERE holder.queue_name = given.queue_name
        AND holder.deduplication_id = given.deduplication_id
    LIMIT 1
) w
LIMIT 1;

-- name: message_obstacle
-- A message under the id of one of the given ones.
SELECT given.workflow_id, given.message_id
FROM json_to_recordset($1::text::json) AS given (workflow_id text, message_id text)
CROSS JOIN LATERAL (
    SELECT FROM {schema}.notifications standing
    WHERE standing.message_uuid = given.message_id
    LIMIT 1
) n
LIMIT 1;

-- name: import_workflows
-- Inserts rows of workflows that nobody runs, with the creator $2.
INSERT INTO {schema}.workflow_status (
    workflow_uuid, status, created_at, updated_at, name, class_name, config_name, serialization,
    recovery_attempts, queue_name, priority, queue_partition_key, deduplication_id, executor_id,
    application_name, application_version, application_id, started_at_epoch_ms, completed_at,
    delay_until_epoch_ms, workflow_timeout_ms, workflow_deadline_epoch_ms, parent_workflow_id,
    forked_from, was_forked_from, rate_limited, schedule_name, is_debounced,
    debounce_deadline_epoch_ms, authenticated_user, authenticated_roles, assumed_role, attributes,
    request, creator_xid
)
SELECT
    workflow_id, state, created_at_ms, updated_at_ms, name, class_name, config_name, serialization,
    attempts, queue_name, priority, partition_key, deduplication_id, executor_id, application_name,
    application_version, application_id, started_at_ms, completed_at_ms, delay_until_ms,
    timeout_ms, deadline_ms, parent_workflow_id, forked_from, was_forked_from, rate_limited,
    schedule_name, is_debounced, debounce_deadline_ms, authenticated_user, authenticated_roles,
    assumed_role, attributes::jsonb, request, $2::text
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, state text, created_at_ms bigint, updated_at_ms bigint, name text,
    class_name text, config_name text, serialization text, attempts bigint, queue_name text,
    priority integer, partition_key text, deduplication_id text, executor_id text,
    application_name text, application_version text, application_id text, started_at_ms bigint,
    completed_at_ms bigint, delay_until_ms bigint, timeout_ms bigint, deadline_ms bigint,
    parent_workflow_id text, forked_from text, was_forked_from boolean, rate_limited boolean,
    schedule_name text, is_debounced boolean, debounce_deadline_ms bigint, authenticated_user text,
    authenticated_roles text, assumed_role text, attributes text, request text
)
ORDER BY deduplication_id COLLATE "C", queue_name COLLATE "C", workflow_id COLLATE "C";

-- name: import_inputs
-- Stores their inputs; $2 is the clock's offset.
INSERT INTO {schema}.workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT workflow_id, inputs, (SELECT {now_ms:2})
FROM json_to_recordset($1::text::json) AS given (workflow_id text, inputs text);

-- name: import_outputs
-- Stores the outcomes of those that have one; $2 is the clock's offset.
INSERT INTO {schema}.workflow_output (workflow_uuid, output, error, retention_timestamp)
SELECT workflow_id, output, error, (SELECT {now_ms:2})
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, state text, output text, error text
)
WHERE state IN ('SUCCESS', 'ERROR') OR output IS NOT NULL OR error IS NOT NULL;

-- name: import_steps
-- Inserts steps; $2 is the clock's offset.
INSERT INTO {schema}.operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    workflow_id, step_id, name, output, error, child_workflow_id, started_at_ms, completed_at_ms,
    serialization, application_name, (SELECT {now_ms:2})
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, step_id integer, name text, output text, error text, child_workflow_id text,
    started_at_ms bigint, completed_at_ms bigint, serialization text, application_name text
);

-- name: import_events
-- Inserts present values.
INSERT INTO {schema}.workflow_events (workflow_uuid, key, value, serialization)
SELECT workflow_id, key, value, serialization
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, key text, value text, serialization text
);

-- name: import_event_history
-- Inserts what steps published.
INSERT INTO {schema}.workflow_events_history (
    workflow_uuid, function_id, key, value, serialization
)
SELECT workflow_id, step_id, key, value, serialization
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, step_id integer, key text, value text, serialization text
);

-- name: import_stream_values
-- Inserts stream values.
INSERT INTO {schema}.streams (
    workflow_uuid, key, "offset", value, function_id, serialization
)
SELECT workflow_id, key, "offset", value, step_id, serialization
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, key text, "offset" integer, value text, step_id integer, serialization text
);

-- name: import_messages
-- Inserts messages.
INSERT INTO {schema}.notifications (
    destination_uuid, message_uuid, message, created_at_epoch_ms, topic, serialization, consumed,
    consumed_by_function_id
)
SELECT
    workflow_id, message_id, message, created_at_ms, topic, serialization, consumed,
    consumed_by_step_id
FROM json_to_recordset($1::text::json) AS given (
    workflow_id text, message_id text, message text, created_at_ms bigint, topic text,
    serialization text, consumed boolean, consumed_by_step_id integer
);

-- name: import_appends
-- Logs appends from inside steps.
INSERT INTO {own}.stream_log (workflow_id, append_id)
SELECT workflow_id, append_id
FROM json_to_recordset($1::text::json) AS given (workflow_id text, append_id text);
