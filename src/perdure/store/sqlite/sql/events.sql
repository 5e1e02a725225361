-- Values that workflows publish under keys. Parameters of what is executed once for each item of a
-- batch are numbered; the others are named.

-- name: set_event
-- Makes a value the present one of its key.
INSERT INTO workflow_events (workflow_uuid, key, value, serialization) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (workflow_uuid, key) DO UPDATE
SET value = excluded.value, serialization = excluded.serialization;

-- name: insert_event_history
-- Remembers which value a step published.
INSERT INTO workflow_events_history (workflow_uuid, function_id, key, value, serialization)
VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (workflow_uuid, function_id, key) DO UPDATE
SET value = excluded.value, serialization = excluded.serialization;

-- name: events
-- The present values of these [id, key] pairs, in their order; those without one are left out.
SELECT {event_columns:e}
FROM json_each(:keys) asked
JOIN workflow_events e
    ON e.workflow_uuid = json_extract(asked.value, '$[0]')
    AND e.key = json_extract(asked.value, '$[1]')
ORDER BY asked.key;

-- name: events_of
-- Every key of a workflow with its present value.
SELECT {event_columns:e} FROM workflow_events e WHERE e.workflow_uuid = :id ORDER BY e.key;
