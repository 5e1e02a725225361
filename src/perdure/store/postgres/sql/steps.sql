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
-- Inserts the steps of the runs that are fenced. $13 is the application, $14 the clock's offset.
INSERT INTO {schema}.operation_outputs (
    workflow_uuid, function_id, function_name, output, error, child_workflow_id,
    started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
    retention_timestamp
)
SELECT
    asked.id, asked.step_id, asked.name, asked.output, asked.error, asked.child_id,
    asked.started_at, asked.completed_at, asked.serialization, $13::text,
    (SELECT {now_ms:14})
FROM asked
JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner

-- name: record
-- Records the steps of all runs it could fence. A step id that is taken fails the statement, which
-- costs a fifth less than looking for one before each row. `fenced` is NULL if all were.
WITH {checkpoints},
{fenced:asked},
recorded AS ({insert_steps})
SELECT {unfenced} AS fenced;

-- name: record_around
-- The same around steps that are recorded already. `recorded` is NULL if every step was inserted,
-- else the (id, step id) of those that were.
WITH {checkpoints},
{fenced:asked},
recorded AS ({insert_steps} ON CONFLICT DO NOTHING RETURNING workflow_uuid, function_id)
SELECT CASE WHEN (SELECT count(*) FROM recorded) < (SELECT count(*) FROM asked)
    THEN ARRAY(SELECT ARRAY[workflow_uuid, function_id::text] FROM recorded) END AS recorded;

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
