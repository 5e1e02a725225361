-- Values that workflows publish under keys.

-- name: publish
-- Records the steps, from $3 to $12, of the runs it could fence, around those that are recorded
-- already, with the values they publish: $15 the key, $16 the value, $17 its format.
WITH asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}, {texts:15}, {texts:16}, {texts:17}
    ) AS asked (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        key, value, label
    )
),
{fenced:asked},
recorded AS (
    {insert_steps:asked}
    ON CONFLICT DO NOTHING
    RETURNING workflow_uuid, function_id
),
published AS MATERIALIZED (
    SELECT asked.id, asked.step_id, asked.key, asked.value, asked.label
    FROM asked
    JOIN recorded ON recorded.workflow_uuid = asked.id AND recorded.function_id = asked.step_id
),
history AS (
    INSERT INTO {schema}.workflow_events_history (
        workflow_uuid, function_id, key, value, serialization
    )
    SELECT id, step_id, key, value, label FROM published
    ON CONFLICT (workflow_uuid, function_id, key) DO UPDATE
    SET value = EXCLUDED.value, serialization = EXCLUDED.serialization
),
present AS (
    INSERT INTO {schema}.workflow_events (workflow_uuid, key, value, serialization)
    SELECT DISTINCT ON (id COLLATE "C", key COLLATE "C") id, key, value, label
    FROM published
    ORDER BY id COLLATE "C", key COLLATE "C", step_id DESC
    ON CONFLICT (workflow_uuid, key) DO UPDATE
    SET value = EXCLUDED.value, serialization = EXCLUDED.serialization
)
{recorded_steps};

-- name: events
-- The present values of these (id, key), in their order; those without one are left out.
SELECT {event_columns:event}
FROM ROWS FROM ({texts:3}, {texts:4}) WITH ORDINALITY AS asked (id, key, place)
CROSS JOIN LATERAL (
    SELECT {event_columns:e} FROM {schema}.workflow_events e
    WHERE e.workflow_uuid = asked.id AND e.key = asked.key
    LIMIT 1
) event
ORDER BY asked.place;

-- name: events_of
-- Every key of a workflow with its present value.
SELECT {event_columns:e} FROM {schema}.workflow_events e
WHERE e.workflow_uuid = $1
ORDER BY e.key COLLATE "C";
