-- The history of runs.

-- fragment: checkpoints
-- The steps to record, from $3 to $12.
asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}
    ) AS asked (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization
    )
)

-- fragment: insert_steps
-- Inserts the steps in the named list whose runs are fenced. $13 is the application, $14 the clock's
-- offset.
INSERT INTO {schema}.operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    steps.id, steps.step_id, steps.name, steps.output, steps.error, steps.child_id,
    steps.started_at, steps.completed_at, steps.serialization, $13::text,
    (SELECT {now_ms:14})
FROM {arg} steps
JOIN fenced ON fenced.id = steps.id AND fenced.owner = steps.owner

-- fragment: recorded_steps
-- `recorded` is NULL if every step that was asked for was inserted, else the (id, step id) of those
-- that were.
SELECT CASE WHEN (SELECT count(*) FROM recorded) < (SELECT count(*) FROM asked)
    THEN ARRAY(SELECT ARRAY[workflow_uuid, function_id::text] FROM recorded) END AS recorded

-- name: record
-- Records the steps of all runs it could fence. A step id that is taken fails the statement, which
-- costs a fifth less than looking for one before each row. `fenced` is NULL if all were.
WITH {checkpoints},
{fenced:asked},
recorded AS ({insert_steps:asked})
SELECT {unfenced} AS fenced;

-- name: record_around
-- The same around steps that are recorded already.
WITH {checkpoints},
{fenced:asked},
recorded AS ({insert_steps:asked} ON CONFLICT DO NOTHING RETURNING workflow_uuid, function_id)
{recorded_steps};

-- name: close_scopes
-- Records verdicts of scopes, from $3 to $12, with $15 where one may stand for another of its name;
-- their open rows, from $16 to $25, each with the position $26 of its verdict; and forgets the steps
-- $28 of the verdicts at the positions $27, whose messages can then be received again. A row that is
-- recorded meanwhile fails the statement. `places` is NULL if all was written, else the positions of
-- the verdicts that were, as texts. What is deleted or changed is looked up by its key and then named
-- by where it stands: a join may walk through the whole table when planned for an empty one.
WITH asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}, {numbers:15}
    ) WITH ORDINALITY AS asked (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        voids, place
    )
),
openings AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:16}, {texts:17}, {numbers:18}, {texts:19}, {texts:20}, {texts:21}, {texts:22},
        {numbers:23}, {numbers:24}, {texts:25}, {numbers:26}
    ) AS openings (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        place
    )
),
{fenced:asked},
standing AS MATERIALIZED (
    SELECT
        wanted.place, wanted.step_id,
        CASE
            WHEN s.function_name <> wanted.name THEN 'other'
            WHEN wanted.voids IS NULL AND s.completed_at_epoch_ms = wanted.completed_at THEN 'open'
            WHEN wanted.voids = 1 AND s.completed_at_epoch_ms IS DISTINCT FROM wanted.completed_at
                THEN 'void'
            ELSE 'other'
        END AS kind
    FROM (
        SELECT place, id, step_id, name, completed_at, voids FROM asked
        UNION ALL
        SELECT place, id, step_id, name, completed_at, NULL FROM openings
    ) wanted
    CROSS JOIN LATERAL (
        SELECT step.function_name, step.completed_at_epoch_ms
        FROM {schema}.operation_outputs step
        WHERE step.workflow_uuid = wanted.id AND step.function_id = wanted.step_id
        LIMIT 1
    ) s
),
closed AS MATERIALIZED (
    SELECT asked.*
    FROM asked
    JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner
    WHERE asked.place NOT IN (SELECT place FROM standing WHERE kind = 'other')
),
fresh AS MATERIALIZED (
    SELECT id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization
    FROM (
        SELECT * FROM closed
        UNION ALL
        SELECT
            openings.id, openings.owner, openings.step_id, openings.name, openings.output,
            openings.error, openings.child_id, openings.started_at, openings.completed_at,
            openings.serialization, NULL, openings.place
        FROM openings
        JOIN closed ON closed.place = openings.place
    ) wanted
    WHERE (place, step_id) NOT IN (SELECT place, step_id FROM standing)
),
inserted AS ({insert_steps:fresh}),
renewed AS MATERIALIZED (
    SELECT closed.*
    FROM closed
    JOIN standing ON standing.place = closed.place AND standing.kind = 'void'
),
overwritten AS (
    {insert_steps:renewed}
    ON CONFLICT (workflow_uuid, function_id) DO UPDATE
    SET output = EXCLUDED.output,
        error = EXCLUDED.error,
        child_workflow_id = EXCLUDED.child_workflow_id,
        started_at_epoch_ms = EXCLUDED.started_at_epoch_ms,
        completed_at_epoch_ms = EXCLUDED.completed_at_epoch_ms,
        serialization = EXCLUDED.serialization,
        application_name = EXCLUDED.application_name,
        retention_timestamp = EXCLUDED.retention_timestamp
),
put_back AS MATERIALIZED (
    SELECT closed.id, steps.step_id
    FROM ROWS FROM ({numbers:27}, {numbers:28}) AS steps (place, step_id)
    JOIN closed ON closed.place = steps.place
),
forgotten AS (
    DELETE FROM {schema}.operation_outputs
    WHERE ctid = ANY(ARRAY(
        SELECT step.ctid
        FROM put_back
        CROSS JOIN LATERAL (
            SELECT s.ctid
            FROM {schema}.operation_outputs s
            WHERE s.workflow_uuid = put_back.id AND s.function_id = put_back.step_id
            FOR UPDATE
        ) step
    ))
),
returned AS (
    UPDATE {schema}.notifications
    SET consumed = false, consumed_by_function_id = NULL
    WHERE ctid = ANY(ARRAY(
        SELECT message.ctid
        FROM put_back
        CROSS JOIN LATERAL (
            SELECT n.ctid
            FROM {schema}.notifications n
            WHERE n.destination_uuid = put_back.id
                AND n.consumed
                AND n.consumed_by_function_id = put_back.step_id
            FOR NO KEY UPDATE
        ) message
    ))
)
SELECT CASE WHEN (SELECT count(*) FROM closed) < (SELECT count(*) FROM asked)
    THEN ARRAY(SELECT place::text FROM closed) END AS places;

-- name: standing_steps
-- What stands at each of the given (id, step id), and how the run stands, in their order.
SELECT {step_columns:s}, w.status AS run_state, w.owner_xid AS run_owner
FROM ROWS FROM ({texts:3}, {numbers:4}) WITH ORDINALITY AS asked (id, step_id, place)
LEFT JOIN LATERAL (
    SELECT {step_columns} FROM {schema}.operation_outputs
    WHERE workflow_uuid = asked.id AND function_id = asked.step_id
    LIMIT 1
) s ON true
LEFT JOIN LATERAL (
    SELECT run.status, run.owner_xid FROM {schema}.workflow_status run
    WHERE run.workflow_uuid = asked.id
    LIMIT 1
) w ON true
ORDER BY asked.place;

-- name: history
-- The steps of these workflows, in no order, at most $4 of them.
SELECT {step_columns}
FROM {schema}.operation_outputs
WHERE workflow_uuid = ANY({list:3})
LIMIT $4;

-- name: history_page
-- The next $3 steps of one workflow after a step id.
SELECT {step_columns}
FROM {schema}.operation_outputs
WHERE workflow_uuid = $1 AND function_id > $2
ORDER BY function_id
LIMIT $3;
