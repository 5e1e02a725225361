-- Looking at workflows.

-- name: descendants
-- Every workflow below one, level by level, each once, up to a number.
WITH RECURSIVE tree (id) AS (
    SELECT w.workflow_uuid FROM workflow_status w WHERE w.parent_workflow_id = :id
    UNION
    SELECT w.workflow_uuid FROM tree
    JOIN workflow_status w ON w.parent_workflow_id = tree.id
),
found AS (SELECT tree.id FROM tree WHERE tree.id <> :id LIMIT :limit)
SELECT {workflow_columns:w} FROM found
JOIN workflow_status w ON w.workflow_uuid = found.id
WHERE {known_state:w}
ORDER BY w.created_at, w.workflow_uuid;

-- name: ancestors
-- Every workflow above one, the nearest first, up to a number.
WITH RECURSIVE line (id, step) AS (
    SELECT w.parent_workflow_id, 1 FROM workflow_status w WHERE w.workflow_uuid = :id
    UNION ALL
    SELECT w.parent_workflow_id, line.step + 1 FROM line
    JOIN workflow_status w ON w.workflow_uuid = line.id
    WHERE line.step < :limit AND w.workflow_uuid <> :id
)
SELECT {workflow_columns:w} FROM line
JOIN workflow_status w ON w.workflow_uuid = line.id
WHERE w.workflow_uuid <> :id AND {known_state:w}
ORDER BY line.step;

-- name: steps_page
-- The next steps of a workflow behind a step id, with their payloads if asked.
SELECT
    s.workflow_uuid, s.function_id, s.function_name, s.child_workflow_id, s.started_at_epoch_ms,
    s.completed_at_epoch_ms, s.serialization,
    CASE WHEN :outputs THEN s.output END AS output,
    CASE WHEN :outputs THEN s.error END AS error
FROM operation_outputs s
WHERE s.workflow_uuid = :id AND s.function_id > :after
ORDER BY s.function_id
LIMIT :limit;

-- name: count_steps
-- How many steps ended from :since to :until, how many of them failed, and the longest time of one:
-- those of the :names (a JSON array) and of the :application or none, where these are not NULL; by
-- name if :by_name, and by spans of :span milliseconds where that is not NULL; at most :limit rows.
SELECT
    count(*) AS number, count(NULLIF(s.error, '')) AS failed,
    max(s.completed_at_epoch_ms - s.started_at_epoch_ms) AS longest,
    CASE WHEN :by_name THEN s.function_name END AS key_name,
    s.completed_at_epoch_ms - s.completed_at_epoch_ms % :span AS key_completed
FROM operation_outputs s
WHERE s.completed_at_epoch_ms BETWEEN :since AND :until
    AND (:names IS NULL OR s.function_name IN (SELECT value FROM json_each(:names)))
    AND (:application IS NULL OR s.application_name = :application OR s.application_name IS NULL)
GROUP BY 4, 5
ORDER BY 5, 1 DESC, 4
LIMIT :limit;

-- name: messages_of
-- The first :limit messages to a workflow, of all, or of those that it has not received if :unread.
-- :default is how the default topic is stored.
SELECT
    n.message_uuid, NULLIF(n.topic, :default) AS topic, n.message, n.serialization,
    n.created_at_epoch_ms, n.consumed, n.consumed_by_function_id
FROM notifications n
WHERE n.destination_uuid = :id AND NOT (n.consumed AND :unread)
ORDER BY n.created_at_epoch_ms, n.message_uuid
LIMIT :limit;

-- name: streams_of
-- The streams of a workflow, by key: how many values, and whether its last row is the mark of the
-- :end.
SELECT line.key, line.number - (last.value = :end) AS number, last.value = :end AS is_closed
FROM (
    SELECT s.key, count(*) AS number, max(s.offset) AS place FROM streams s
    WHERE s.workflow_uuid = :id
    GROUP BY s.key
) line
JOIN streams last
    ON last.workflow_uuid = :id AND last.key = line.key AND last.offset = line.place
ORDER BY line.key;

-- fragment: known_state
-- Whether the row of {arg} is in a state that can be shown.
{arg}.status IN ('ENQUEUED', 'DELAYED', 'PENDING', 'SUCCESS', 'ERROR', 'CANCELLED',
    'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
