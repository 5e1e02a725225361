-- Copies of workflows that go on from a step, and workflows that do so themselves.

-- fragment: forks_wanted
-- The forks to make: the source, from $3, the fork's own id and the first step to run afresh.
forks AS MATERIALIZED (
    SELECT * FROM ROWS FROM ({texts:3}, {texts:4}, {numbers:5}) AS forks (source, id, point)
)

-- name: fork_points
-- Of each (source, fork id, step id, name, word), in their order: what the fork stands as a fork of,
-- if it stands, and the step from which it is to go on. That is the step id; or, where there is
-- none, the last step of the name; or, for 'failed', the last one that failed, else the last one; or
-- the last one. NULL if there is no such step. What is recorded under $8 behind a step of the names
-- $9 is the time limit of that, no step of its own.
SELECT
    standing.id IS NOT NULL AS stands, standing.forked_from,
    CASE
        WHEN asked.point IS NOT NULL THEN asked.point
        WHEN asked.name IS NOT NULL THEN (
            SELECT max(named.function_id) FROM {schema}.operation_outputs named
            WHERE named.workflow_uuid = asked.source AND named.function_name = asked.name
        )
        ELSE COALESCE((
            SELECT max(failed.function_id) FROM {schema}.operation_outputs failed
            WHERE asked.word = 'failed'
                AND failed.workflow_uuid = asked.source AND failed.error IS NOT NULL
        ), (
            SELECT last.function_id FROM {schema}.operation_outputs last
            WHERE last.workflow_uuid = asked.source AND (last.function_name <> $8 OR NOT EXISTS (
                SELECT FROM {schema}.operation_outputs waiting
                WHERE waiting.workflow_uuid = asked.source
                    AND waiting.function_id = last.function_id - 1
                    AND waiting.function_name = ANY($9::text[])
            ))
            ORDER BY last.function_id DESC
            LIMIT 1
        ))
    END AS point
FROM ROWS FROM ({texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7})
    WITH ORDINALITY AS asked (source, fork_id, point, name, word, place)
LEFT JOIN LATERAL (
    SELECT w.workflow_uuid AS id, w.forked_from
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = asked.fork_id
    LIMIT 1
) standing ON true
ORDER BY asked.place;

-- name: insert_forks
-- Inserts the rows of forks. $6 is their queue, $7 the partition, $8 the version, $9 the timeout,
-- $10 the application, $11 the clock's offset.
WITH clock AS MATERIALIZED (SELECT {now_ms:11} AS ms),
{waiting},
{forks_wanted}
INSERT INTO {schema}.workflow_status (
    workflow_uuid, status, name, class_name, config_name, application_name, application_id,
    application_version, authenticated_user, authenticated_roles, assumed_role, serialization,
    attributes, queue_name, queue_partition_key, workflow_timeout_ms, forked_from,
    recovery_attempts, priority, created_at, updated_at
)
SELECT
    forks.id, 'ENQUEUED', w.name, w.class_name, w.config_name,
    COALESCE(w.application_name, $10::text), w.application_id,
    $8::text, w.authenticated_user, w.authenticated_roles, w.assumed_role, w.serialization,
    w.attributes, $6::text, $7::text, $9::bigint, forks.source,
    0, 0, (SELECT ms FROM waiting), (SELECT ms FROM waiting)
FROM forks
JOIN {schema}.workflow_status w ON w.workflow_uuid = forks.source
ORDER BY forks.id COLLATE "C";

-- name: insert_fork_inputs
-- Stores the inputs of forks over what a workflow that was deleted left. $6 is the clock's offset.
WITH {forks_wanted}
INSERT INTO {schema}.workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT forks.id, COALESCE(i.inputs, w.inputs), (SELECT {now_ms:6})
FROM forks
JOIN {schema}.workflow_status w ON w.workflow_uuid = forks.source
LEFT JOIN {schema}.workflow_input i ON i.workflow_uuid = forks.source
ON CONFLICT (workflow_uuid) DO UPDATE
SET inputs = EXCLUDED.inputs, retention_timestamp = EXCLUDED.retention_timestamp;

-- name: mark_forked
-- Says of the sources that they were forked from.
UPDATE {schema}.workflow_status
SET was_forked_from = true
WHERE workflow_uuid = ANY({list:3}) AND NOT was_forked_from;

-- name: copy_steps
-- Copies the steps below the points. The steps' application is that of the fork's row, which stands
-- by now. $6 is a fork, $7 a child of its source, $8 what stands for that; $9 the clock's offset.
WITH {forks_wanted},
replaced AS MATERIALIZED (
    SELECT * FROM ROWS FROM ({texts:6}, {texts:7}, {texts:8}) AS replaced (id, child_id, by_id)
)
INSERT INTO {schema}.operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    forks.id, s.function_id, s.function_name, s.output, s.error,
    COALESCE(replaced.by_id, s.child_workflow_id),
    s.started_at_epoch_ms, s.completed_at_epoch_ms, s.serialization, w.application_name,
    (SELECT {now_ms:9})
FROM forks
JOIN {schema}.workflow_status w ON w.workflow_uuid = forks.id
JOIN {schema}.operation_outputs s
    ON s.workflow_uuid = forks.source AND s.function_id < forks.point
LEFT JOIN replaced ON replaced.id = forks.id AND replaced.child_id = s.child_workflow_id;

-- name: copy_event_history
-- Copies what steps below the points published.
WITH {forks_wanted}
INSERT INTO {schema}.workflow_events_history (
    workflow_uuid, function_id, key, value, serialization
)
SELECT forks.id, h.function_id, h.key, h.value, h.serialization
FROM forks
JOIN {schema}.workflow_events_history h
    ON h.workflow_uuid = forks.source AND h.function_id < forks.point;

-- name: copy_events
-- Makes the newest value of each key in that history, which the forks have by now, the present one.
WITH {forks_wanted}
INSERT INTO {schema}.workflow_events (workflow_uuid, key, value, serialization)
SELECT DISTINCT ON (h.workflow_uuid, h.key) h.workflow_uuid, h.key, h.value, h.serialization
FROM forks
JOIN {schema}.workflow_events_history h ON h.workflow_uuid = forks.id
ORDER BY h.workflow_uuid, h.key, h.function_id DESC;

-- name: copy_streams
-- Copies what steps below the points appended, without the gaps that later steps leave: not every
-- reader passes over one.
WITH {forks_wanted}
INSERT INTO {schema}.streams (workflow_uuid, key, value, "offset", function_id, serialization)
SELECT
    forks.id, s.key, s.value,
    row_number() OVER (PARTITION BY forks.id, s.key ORDER BY s."offset") - 1,
    s.function_id, s.serialization
FROM forks
JOIN {schema}.streams s ON s.workflow_uuid = forks.source AND s.function_id < forks.point;

-- name: copy_stream_log
-- The same of what is logged of it. The id of an append begins with its step.
WITH {forks_wanted}
INSERT INTO {own}.stream_log (workflow_id, append_id)
SELECT forks.id, l.append_id
FROM forks
JOIN {own}.stream_log l
    ON l.workflow_id = forks.source
    AND substring(l.append_id FROM '^[0-9]+')::numeric < forks.point
ON CONFLICT DO NOTHING;

-- name: delete_late_events
-- Removes the present values of the workflow $1 that stem from the step $2 on.
DELETE FROM {schema}.workflow_events
WHERE workflow_uuid = $1 AND key IN (
    SELECT late.key FROM {schema}.workflow_events_history late
    WHERE late.workflow_uuid = $1 AND late.function_id >= $2::bigint
);

-- name: restore_events
-- Makes the newest values below the step the present ones of the keys that have none.
INSERT INTO {schema}.workflow_events (workflow_uuid, key, value, serialization)
SELECT DISTINCT ON (h.key) h.workflow_uuid, h.key, h.value, h.serialization
FROM {schema}.workflow_events_history h
WHERE h.workflow_uuid = $1 AND h.function_id < $2::bigint
ORDER BY h.key, h.function_id DESC
ON CONFLICT DO NOTHING;

-- name: delete_late_history
-- Forgets what steps from $2 on published.
DELETE FROM {schema}.workflow_events_history WHERE workflow_uuid = $1 AND function_id >= $2::bigint;

-- name: delete_late_steps
-- Forgets the steps from $2 on.
DELETE FROM {schema}.operation_outputs WHERE workflow_uuid = $1 AND function_id >= $2::bigint;

-- name: reopen_streams
-- Removes the closes, $3 in the format $4, that were written from the step $2 on.
DELETE FROM {schema}.streams
WHERE workflow_uuid = $1 AND function_id >= $2::bigint AND value = $3 AND serialization = $4;

-- name: forget_late_appends
-- Lets steps from $2 on append again.
DELETE FROM {own}.stream_log
WHERE workflow_id = $1 AND substring(append_id FROM '^[0-9]+')::numeric >= $2::bigint;

-- name: delete_late_messages
-- Removes messages that were consumed from the step $2 on, or by nobody yet.
DELETE FROM {schema}.notifications
WHERE destination_uuid = $1 AND (consumed_by_function_id >= $2::bigint OR NOT consumed);

-- name: rewind
-- Enqueues an ended workflow: $2 is the queue, $3 the partition, $4 the version or NULL: as it is;
-- $5 what tells this rewind from others, $6 the clock's offset.
UPDATE {schema}.workflow_status
SET status = 'ENQUEUED',
    queue_name = $2,
    queue_partition_key = $3,
    application_version = COALESCE($4, application_version),
    recovery_attempts = 0,
    creator_xid = $5,
    owner_xid = NULL,
    workflow_deadline_epoch_ms = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = NULL,
    output = NULL,
    error = NULL,
    updated_at = {now_ms:6}
WHERE workflow_uuid = $1;
