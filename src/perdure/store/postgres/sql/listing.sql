-- Looking at workflows.

-- name: descendants
-- Every workflow below one, level by level, each once, up to a number.
WITH RECURSIVE tree (id) AS (
    SELECT w.workflow_uuid FROM {schema}.workflow_status w WHERE w.parent_workflow_id = $1
    UNION
    SELECT child.id FROM tree
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid AS id FROM {schema}.workflow_status w
        WHERE w.parent_workflow_id = tree.id
        OFFSET 0
    ) child
),
found AS (SELECT tree.id FROM tree WHERE tree.id <> $1 LIMIT $2)
SELECT {workflow_columns:w} FROM found
JOIN {schema}.workflow_status w ON w.workflow_uuid = found.id
WHERE {known_state:w}
ORDER BY w.created_at, w.workflow_uuid;

-- name: ancestors
-- Every workflow above one, the nearest first, up to a number.
WITH RECURSIVE line (id, step) AS (
    SELECT w.parent_workflow_id, 1 FROM {schema}.workflow_status w WHERE w.workflow_uuid = $1
    UNION ALL
    SELECT w.parent_workflow_id, line.step + 1 FROM line
    JOIN {schema}.workflow_status w ON w.workflow_uuid = line.id
    WHERE line.step < $2 AND w.workflow_uuid <> $1
)
SELECT {workflow_columns:w} FROM line
JOIN {schema}.workflow_status w ON w.workflow_uuid = line.id
WHERE w.workflow_uuid <> $1 AND {known_state:w}
ORDER BY line.step;

-- name: steps_page
-- The next $3 steps of a workflow behind a step id, with their payloads if $4.
SELECT
    s.workflow_uuid, s.function_id, s.function_name, s.child_workflow_id, s.started_at_epoch_ms,
    s.completed_at_epoch_ms, s.serialization,
    CASE WHEN $4::boolean THEN s.output END AS output,
    CASE WHEN $4::boolean THEN s.error END AS error
FROM {schema}.operation_outputs s
WHERE s.workflow_uuid = $1 AND s.function_id > $2
ORDER BY s.function_id
LIMIT $3;

-- name: streams_of
-- The streams of a workflow, by key: how many values, and whether its last row is the text $2,
-- which marks the end.
SELECT line.key, line.number - CASE WHEN last.value = $2 THEN 1 ELSE 0 END AS number,
    last.value = $2 AS is_closed
FROM (
    SELECT s.key, count(*) AS number, max(s."offset") AS place
    FROM {schema}.streams s
    WHERE s.workflow_uuid = $1
    GROUP BY s.key
) line
JOIN {schema}.streams last
    ON last.workflow_uuid = $1 AND last.key = line.key AND last."offset" = line.place
ORDER BY line.key COLLATE "C";

-- fragment: known_state
-- Whether the row of {arg} is in a state that can be shown.
{arg}.status IN ('ENQUEUED', 'DELAYED', 'PENDING', 'SUCCESS', 'ERROR', 'CANCELLED',
    'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
