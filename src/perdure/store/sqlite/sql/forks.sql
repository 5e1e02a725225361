-- Copies of workflows that go on from a step, and workflows that do so themselves. The forks to make
-- are [source, the fork's own id, first step to run afresh].

-- fragment: forks_wanted
-- The forks to make.
forks AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS source,
        json_extract(value, '$[1]') AS id,
        json_extract(value, '$[2]') AS point
    FROM json_each(:forks)
)

-- name: fork_points
-- Of each [source, fork id, step id, name, word], in their order: what the fork stands as a fork of,
-- if it stands, and the step from which it is to go on. That is the step id; or, where there is
-- none, the last step of the name; or, for 'failed', the last one that failed, else the last one; or
-- the last one. NULL if there is no such step. What is recorded under `limit` behind a step of
-- the names `waits` is the time limit of that, no step of its own.
SELECT
    standing.workflow_uuid IS NOT NULL AS stands, standing.forked_from,
    CASE
        WHEN asked.point IS NOT NULL THEN asked.point
        WHEN asked.name IS NOT NULL THEN (
            SELECT max(named.function_id) FROM operation_outputs named
            WHERE named.workflow_uuid = asked.source AND named.function_name = asked.name
        )
        ELSE COALESCE((
            SELECT max(failed.function_id) FROM operation_outputs failed
            WHERE asked.word = 'failed'
                AND failed.workflow_uuid = asked.source AND failed.error IS NOT NULL
        ), (
            SELECT last.function_id FROM operation_outputs last
            WHERE last.workflow_uuid = asked.source AND (last.function_name <> :limit OR NOT EXISTS (
                SELECT 1 FROM operation_outputs waiting
                WHERE waiting.workflow_uuid = asked.source
                    AND waiting.function_id = last.function_id - 1
                    AND waiting.function_name IN (SELECT value FROM json_each(:waits))
            ))
            ORDER BY last.function_id DESC
            LIMIT 1
        ))
    END AS point
FROM (
    SELECT
        key AS place,
        json_extract(value, '$[0]') AS source,
        json_extract(value, '$[1]') AS fork_id,
        json_extract(value, '$[2]') AS point,
        json_extract(value, '$[3]') AS name,
        json_extract(value, '$[4]') AS word
    FROM json_each(:asked)
) asked
LEFT JOIN workflow_status standing ON standing.workflow_uuid = asked.fork_id
ORDER BY asked.place;

-- name: insert_forks
-- Inserts the rows of forks.
WITH {forks_wanted}
INSERT INTO workflow_status (
    workflow_uuid, status, name, class_name, config_name, application_name, application_id,
    application_version, authenticated_user, authenticated_roles, assumed_role, serialization,
    attributes, queue_name, queue_partition_key, workflow_timeout_ms, forked_from,
    recovery_attempts, priority, created_at, updated_at
)
SELECT
    forks.id, 'ENQUEUED', w.name, w.class_name, w.config_name,
    COALESCE(w.application_name, :application), w.application_id,
    :version, w.authenticated_user, w.authenticated_roles, w.assumed_role, w.serialization,
    w.attributes, :queue, :partition, :timeout, forks.source,
    0, 0, :since, :since
FROM forks
CROSS JOIN workflow_status w ON w.workflow_uuid = forks.source;

-- name: insert_fork_inputs
-- Stores the inputs of forks over what a workflow that was deleted left.
WITH {forks_wanted}
INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT forks.id, COALESCE(i.inputs, w.inputs), :now
FROM forks
CROSS JOIN workflow_status w ON w.workflow_uuid = forks.source
LEFT JOIN workflow_input i ON i.workflow_uuid = forks.source
WHERE TRUE
ON CONFLICT (workflow_uuid) DO UPDATE
SET inputs = excluded.inputs, retention_timestamp = excluded.retention_timestamp;

-- name: mark_forked
-- Says of the sources that they were forked from.
WITH {forks_wanted}
UPDATE workflow_status
SET was_forked_from = TRUE
WHERE workflow_uuid IN (SELECT source FROM forks) AND NOT was_forked_from;

-- name: copy_steps
-- Copies the steps below the points. The steps' application is that of the fork's row, which stands
-- by now. `replaced` are [fork, child of its source, what stands for that].
WITH {forks_wanted},
replaced AS MATERIALIZED (
    SELECT
        json_extract(value, '$[0]') AS id,
        json_extract(value, '$[1]') AS child_id,
        json_extract(value, '$[2]') AS by_id
    FROM json_each(:replaced)
)
INSERT INTO operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    forks.id, s.function_id, s.function_name, s.output, s.error,
    COALESCE(replaced.by_id, s.child_workflow_id),
    s.started_at_epoch_ms, s.completed_at_epoch_ms, s.serialization, w.application_name, :now
FROM forks
CROSS JOIN workflow_status w ON w.workflow_uuid = forks.id
CROSS JOIN operation_outputs s
    ON s.workflow_uuid = forks.source AND s.function_id < forks.point
LEFT JOIN replaced ON replaced.id = forks.id AND replaced.child_id = s.child_workflow_id;

-- name: copy_event_history
-- Copies what steps below the points published.
WITH {forks_wanted}
INSERT INTO workflow_events_history (workflow_uuid, function_id, key, value, serialization)
SELECT forks.id, h.function_id, h.key, h.value, h.serialization
FROM forks
CROSS JOIN workflow_events_history h
    ON h.workflow_uuid = forks.source AND h.function_id < forks.point;

-- name: copy_events
-- Makes the newest value of each key in that history, which the forks have by now, the present one.
WITH {forks_wanted}
INSERT INTO workflow_events (workflow_uuid, key, value, serialization)
SELECT workflow_uuid, key, value, serialization
FROM (
    SELECT
        h.workflow_uuid, h.key, h.value, h.serialization,
        row_number() OVER (
            PARTITION BY h.workflow_uuid, h.key ORDER BY h.function_id DESC
        ) AS age
    FROM forks
    CROSS JOIN workflow_events_history h ON h.workflow_uuid = forks.id
)
WHERE age = 1;

-- name: copy_streams
-- Copies what steps below the points appended, without the gaps that later steps leave: not every
-- reader passes over one.
WITH {forks_wanted}
INSERT INTO streams (workflow_uuid, key, value, "offset", function_id, serialization)
SELECT
    forks.id, s.key, s.value,
    row_number() OVER (PARTITION BY forks.id, s.key ORDER BY s."offset") - 1,
    s.function_id, s.serialization
FROM forks
CROSS JOIN streams s ON s.workflow_uuid = forks.source AND s.function_id < forks.point;

-- name: copy_stream_log
-- The same of what is logged of it. The id of an append begins with its step.
WITH {forks_wanted}
INSERT INTO perdure_stream_log (workflow_id, append_id)
SELECT forks.id, l.append_id
FROM forks
CROSS JOIN perdure_stream_log l
    ON l.workflow_id = forks.source
    AND l.append_id GLOB '[0-9]*' AND CAST(l.append_id AS INTEGER) < forks.point
WHERE TRUE
ON CONFLICT DO NOTHING;

-- name: delete_late_events
-- Removes the present values of a workflow that stem from a step on.
DELETE FROM workflow_events
WHERE workflow_uuid = :id AND key IN (
    SELECT late.key FROM workflow_events_history late
    WHERE late.workflow_uuid = :id AND late.function_id >= :point
);

-- name: restore_events
-- Makes the newest values below the step the present ones of the keys that have none.
INSERT INTO workflow_events (workflow_uuid, key, value, serialization)
SELECT h.workflow_uuid, h.key, h.value, h.serialization
FROM workflow_events_history h
WHERE h.workflow_uuid = :id AND h.function_id < :point
ORDER BY h.function_id DESC
ON CONFLICT DO NOTHING;

-- name: delete_late_history
-- Forgets what steps from one on published.
DELETE FROM workflow_events_history WHERE workflow_uuid = :id AND function_id >= :point;

-- name: delete_late_steps
-- Forgets the steps from one on.
DELETE FROM operation_outputs WHERE workflow_uuid = :id AND function_id >= :point;

-- name: reopen_streams
-- Removes the closes that were written from a step on.
DELETE FROM streams
WHERE workflow_uuid = :id AND function_id >= :point
    AND value = :closed AND serialization = :format;

-- name: forget_late_appends
-- Lets steps from one on append again.
DELETE FROM perdure_stream_log
WHERE workflow_id = :id
    AND append_id GLOB '[0-9]*' AND CAST(append_id AS INTEGER) >= :point;

-- name: delete_late_messages
-- Removes messages that were consumed from the step on, or by nobody yet.
DELETE FROM notifications
WHERE destination_uuid = :id AND (consumed_by_function_id >= :point OR NOT consumed);

-- name: rewind
-- Enqueues an ended workflow; a version that is NULL leaves the row's. The token tells this rewind from
-- others.
UPDATE workflow_status
SET status = 'ENQUEUED',
    queue_name = :queue,
    queue_partition_key = :partition,
    application_version = COALESCE(:version, application_version),
    recovery_attempts = 0,
    creator_xid = :token,
    owner_xid = NULL,
    workflow_deadline_epoch_ms = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = NULL,
    output = NULL,
    error = NULL,
    updated_at = :now
WHERE workflow_uuid = :id;
