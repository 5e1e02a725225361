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
