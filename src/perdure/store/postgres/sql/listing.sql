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

-- name: count_steps
-- How many steps ended from $1 to $2, how many of them failed, and the longest time of one: those of
-- the names $3 and of the application $4 or none, where these are not NULL; by name if $5, and by
-- spans of $6 milliseconds where that is not NULL; at most $7 rows.
SELECT
    count(*) AS number, count(NULLIF(s.error, '')) AS failed,
    max(s.completed_at_epoch_ms - s.started_at_epoch_ms) AS longest,
    CASE WHEN $5::boolean THEN s.function_name END COLLATE "C" AS key_name,
    s.completed_at_epoch_ms - s.completed_at_epoch_ms % $6::bigint AS key_completed
FROM {schema}.operation_outputs s
WHERE s.completed_at_epoch_ms BETWEEN $1 AND $2
    AND ($3::text[] IS NULL OR s.function_name = ANY($3::text[]))
    AND ($4::text IS NULL OR s.application_name = $4 OR s.application_name IS NULL)
GROUP BY 4, 5
ORDER BY 5, 1 DESC, 4
LIMIT $7;

-- name: messages_of
-- The first $2 messages to a workflow, of all, or of those that it has not received if $3. $4 is how
-- the default topic is stored.
SELECT
    n.message_uuid, NULLIF(n.topic, $4) AS topic, n.message, n.serialization,
    n.created_at_epoch_ms, n.consumed, n.consumed_by_function_id
FROM {schema}.notifications n
WHERE n.destination_uuid = $1 AND NOT (n.consumed AND $3::boolean)
ORDER BY n.created_at_epoch_ms, n.message_uuid COLLATE "C"
LIMIT $2;

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
