-- Messages to workflows. Parameters of what is executed once for each item of a batch are numbered;
-- the others are named.

-- name: standing_workflow
-- Whether a workflow exists.
SELECT 1 FROM workflow_status WHERE workflow_uuid = ?1;

-- name: standing_messages
-- Whether a message stands under its id.
SELECT 1 FROM notifications WHERE message_uuid = ?1;

-- name: forks
-- What was forked from a workflow, directly or through other forks.
WITH RECURSIVE family (id) AS (
    SELECT ?1
    UNION
    SELECT w.workflow_uuid FROM family JOIN workflow_status w ON w.forked_from = family.id
)
SELECT id FROM family WHERE id <> ?1;

-- name: latest_message
-- When the latest message of a topic was created.
SELECT max(created_at_epoch_ms) AS created_at FROM notifications
WHERE destination_uuid = ?1 AND topic = ?2;

-- name: insert_message
-- Stores a message unless one stands under its id.
INSERT INTO notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms, consumed
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, FALSE)
ON CONFLICT DO NOTHING;

-- name: oldest_message
-- The message of a topic that is received next.
SELECT message_uuid, message, serialization FROM notifications
WHERE destination_uuid = ?1 AND topic = ?2 AND NOT consumed
ORDER BY created_at_epoch_ms, message_uuid
LIMIT 1;

-- name: consume_message
-- Marks a message received by a step.
UPDATE notifications SET consumed = TRUE, consumed_by_function_id = ?2 WHERE message_uuid = ?1;

-- name: return_message
-- Lets what a step received be received again.
UPDATE notifications SET consumed = FALSE, consumed_by_function_id = NULL
WHERE destination_uuid = ?1 AND consumed AND consumed_by_function_id = ?2;

-- name: topics_with_messages
-- The positions of those of the given [destination, topic] pairs that have a message.
SELECT asked.key AS place FROM json_each(:topics) asked
WHERE EXISTS (
    SELECT 1 FROM notifications n
    WHERE n.destination_uuid = json_extract(asked.value, '$[0]')
        AND n.topic = json_extract(asked.value, '$[1]')
        AND NOT n.consumed
)
ORDER BY asked.key;
