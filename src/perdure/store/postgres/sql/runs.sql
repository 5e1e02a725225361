-- The life of a run from its start to its end; claims are beside.

-- fragment: held_lease
-- The lease of a boot, kept from being taken until the statement is over. Whoever takes it locks
-- it for update, and is waited for here.
lease AS MATERIALIZED (
    SELECT boot_id FROM {own}.leases
    WHERE boot_id = ${arg} AND taken_at IS NULL
    FOR KEY SHARE
)

-- fragment: waiting
-- When those that wait in a queue are created: later than all that calls before this one enqueued.
-- Several calls fit into a millisecond and queues are served in the order of creation, so that this
-- runs ahead of the clock, by a second at most.
waiting AS MATERIALIZED (
    SELECT LEAST(clock.ms + 1000, GREATEST(clock.ms, (
        SELECT w.created_at + 1
        FROM {schema}.workflow_status w
        WHERE w.created_at <= clock.ms + 1000
        ORDER BY w.created_at DESC
        LIMIT 1
    ))) AS ms
    FROM clock
)

-- fragment: new_workflows
-- The workflows to insert, from $8 to $30. $3 and $4 are the boot and executor id, NULL for whoever
-- has none, $5 the clock's offset.
{held_lease:3},
clock AS MATERIALIZED (SELECT {now_ms:5} AS ms),
-- Not asked for by those that start at once.
{waiting},
new AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:8}, {texts:9}, {texts:10}, {texts:11}, {texts:12}, {texts:13}, {texts:14},
        {texts:15}, {texts:16}, {texts:17}, {numbers:18}, {texts:19}, {texts:20}, {numbers:21},
        {numbers:22}, {numbers:23}, {texts:24}, {texts:25}, {texts:26}, {texts:27}, {texts:28},
        {texts:29}, {numbers:30}
    ) WITH ORDINALITY AS new (
        id, name, class_name, config_name, state, inputs, serialization,
        version, creator, queue_name, priority, deduplication_id, partition_key, delay_ms,
        timeout_ms, deadline_ms, parent_id, attributes, user_name, roles, assumed_role, application,
        debounce_ms, place
    )
)

-- fragment: may_start
-- Whether the lease stands that a start needs.
($3::text IS NULL OR EXISTS (SELECT FROM lease))

-- fragment: insert_workflows
-- Inserts what is admitted. $6 is the application of those that name none, $7 the application id. Ids and deduplication
-- ids are inserted in one order everywhere, so that two statements with the same never wait for
-- each other in a circle.
INSERT INTO {schema}.workflow_status (
    workflow_uuid, status, name, class_name, config_name, executor_id,
    application_version, application_name, application_id,
    recovery_attempts, serialization, creator_xid, owner_xid,
    queue_name, priority, deduplication_id, queue_partition_key, delay_until_epoch_ms,
    workflow_timeout_ms, workflow_deadline_epoch_ms,
    parent_workflow_id, attributes, authenticated_user, authenticated_roles, assumed_role,
    is_debounced, debounce_deadline_epoch_ms, created_at, updated_at
)
SELECT
    id, state, name, class_name, config_name, $4,
    version, COALESCE(application, $6::text), $7::text,
    CASE state WHEN 'PENDING' THEN 1 ELSE 0 END, serialization, creator,
    CASE state WHEN 'PENDING' THEN creator END,
    queue_name, priority, deduplication_id, partition_key,
    CASE WHEN state = 'DELAYED' AND delay_ms IS NOT NULL THEN {later:delay_ms}
        WHEN state = 'DELAYED' THEN (SELECT ms FROM clock) END,
    timeout_ms,
    CASE WHEN state = 'PENDING' AND deadline_ms IS NULL AND timeout_ms IS NOT NULL
        THEN {later:timeout_ms} ELSE deadline_ms END,
    parent_id, attributes::jsonb, user_name, roles, assumed_role,
    debounce_ms IS NOT NULL, CASE WHEN debounce_ms > 0 THEN {later:debounce_ms} END, since, since
FROM admitted
CROSS JOIN LATERAL (
    SELECT CASE state WHEN 'PENDING' THEN (SELECT ms FROM clock) ELSE (SELECT ms FROM waiting) END
) AS created (since)
ORDER BY deduplication_id COLLATE "C", queue_name COLLATE "C", id COLLATE "C"

-- fragment: insert_inputs
-- Stores the inputs of workflows just inserted.
INSERT INTO {schema}.workflow_input (workflow_uuid, inputs, retention_timestamp)
SELECT inserted.id, inserted.inputs, (SELECT ms FROM clock) FROM inserted

-- fragment: insert_inputs_over
-- The same over what a workflow that was deleted left.
{insert_inputs}
ON CONFLICT (workflow_uuid) DO UPDATE
SET inputs = EXCLUDED.inputs, retention_timestamp = EXCLUDED.retention_timestamp

-- fragment: inserted_around
-- The workflows of `admitted` whose id and deduplication id were free, inserted.
workflows AS ({insert_workflows} ON CONFLICT DO NOTHING RETURNING workflow_uuid),
inserted AS MATERIALIZED (
    SELECT admitted.* FROM admitted JOIN workflows ON workflows.workflow_uuid = admitted.id
)

-- fragment: started
-- `held` says whether the lease stands; `places` is NULL if all were inserted, else says which, as
-- texts: asyncpg knows an array of texts without asking the server what that is.
SELECT
    {may_start} AS held,
    CASE WHEN (SELECT count(*) FROM inserted) < (SELECT count(*) FROM new)
        THEN ARRAY(SELECT place::text FROM inserted) END AS places

-- name: start
-- Inserts new workflows with their inputs. An id that is taken fails the statement, which costs a
-- fourth less than looking for one before each row.
WITH {new_workflows},
admitted AS MATERIALIZED (SELECT * FROM new WHERE {may_start}),
workflows AS ({insert_workflows} RETURNING 1),
-- Not before the last workflow: two statements with the same ids meet there, in one order, before
-- either has inserted anything that the other could wait for.
inserted AS MATERIALIZED (
    SELECT * FROM admitted WHERE (SELECT count(*) FROM workflows) > 0
),
inputs AS ({insert_inputs})
{started};

-- name: start_around
-- The same around workflows whose id or deduplication id is taken.
WITH {new_workflows},
admitted AS MATERIALIZED (SELECT * FROM new WHERE {may_start}),
{inserted_around},
inputs AS ({insert_inputs_over})
{started};

-- name: start_children
-- The same, some of them children, each together with its parent's step: from $31 to $41, where
-- `place` is the position of the child. The parent's run must be fenced and the step id free. One
-- that is taken meanwhile fails the statement, so that a child never stands without the step.
WITH {new_workflows},
callers AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:31}, {texts:32}, {numbers:33}, {texts:34}, {texts:35}, {texts:36}, {texts:37},
        {numbers:38}, {numbers:39}, {texts:40}, {numbers:41}
    ) AS callers (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at,
        serialization, place
    )
),
{fenced:callers},
admitted AS MATERIALIZED (
    SELECT new.*
    FROM new
    LEFT JOIN callers ON callers.place = new.place
    LEFT JOIN fenced ON fenced.id = callers.id AND fenced.owner = callers.owner
    WHERE {may_start}
        AND (callers.place IS NULL OR (fenced.id IS NOT NULL AND (
            SELECT 1 FROM {schema}.operation_outputs taken
            WHERE taken.workflow_uuid = callers.id AND taken.function_id = callers.step_id
        ) IS NULL))
),
{inserted_around},
inputs AS ({insert_inputs_over}),
steps AS (
    INSERT INTO {schema}.operation_outputs (
        workflow_uuid, function_id, function_name, output, error, child_workflow_id,
        started_at_epoch_ms, completed_at_epoch_ms, serialization, application_name,
        retention_timestamp
    )
    SELECT
        callers.id, callers.step_id, callers.name, callers.output, callers.error,
        callers.child_id, callers.started_at, callers.completed_at, callers.serialization,
        $6::text, (SELECT ms FROM clock)
    FROM inserted
    JOIN callers ON callers.place = inserted.place
)
{started};

-- name: standing_workflows
-- What stands against each of the given starts, in their order: the row under the id, else the
-- holder of the deduplication id; whether the parent has a step in the child's place; and how the parent stands.
SELECT
    {standing_columns:w},
    s.workflow_uuid IS NOT NULL AS step_stands,
    parent.status AS parent_state, parent.owner_xid AS parent_owner
FROM ROWS FROM (
    {texts:3}, {texts:4}, {texts:5}, {texts:6}, {numbers:7}
) WITH ORDINALITY AS asked (id, queue_name, deduplication_id, parent_id, step_id, place)
LEFT JOIN LATERAL (
    SELECT same.*, 1 AS rank FROM {schema}.workflow_status same
    WHERE same.workflow_uuid = asked.id
    UNION ALL
    SELECT holder.*, 2 FROM {schema}.workflow_status holder
    WHERE holder.queue_name = asked.queue_name
        AND holder.deduplication_id = asked.deduplication_id
    ORDER BY rank
    LIMIT 1
) w ON true
LEFT JOIN LATERAL (
    SELECT step.workflow_uuid FROM {schema}.operation_outputs step
    WHERE step.workflow_uuid = asked.parent_id AND step.function_id = asked.step_id
    LIMIT 1
) s ON true
LEFT JOIN LATERAL (
    SELECT run.status, run.owner_xid FROM {schema}.workflow_status run
    WHERE run.workflow_uuid = asked.parent_id
    LIMIT 1
) parent ON true
ORDER BY asked.place;

-- fragment: end
-- What the end in a state, which {arg} has, changes in a run's row.
status = {arg}.status,
owner_xid = NULL,
deduplication_id = NULL,
queue_name = CASE WHEN {arg}.status IN ('SUCCESS', 'ERROR') THEN w.queue_name END,
started_at_epoch_ms = CASE WHEN {arg}.status IN ('SUCCESS', 'ERROR') THEN w.started_at_epoch_ms END,
updated_at = (SELECT ms FROM clock),
completed_at = (SELECT ms FROM clock)

-- fragment: ending
-- The runs to end, from $3 to $7, fenced, and their rows' end. $8 is the clock's offset. Endings
-- without an outcome also leave the queue. The rows are locked, so the insertion always meets them;
-- it stands for an update that looks each of them up by its key, where a join may walk through the
-- whole table when planned for an empty one.
clock AS MATERIALIZED (SELECT {now_ms:8} AS ms),
asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM ({texts:3}, {texts:4}, {texts:5}, {texts:6}, {texts:7})
        AS asked (id, owner, state, output, error)
),
{fenced:asked},
ended AS MATERIALIZED (
    SELECT asked.*
    FROM asked
    JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner
),
runs_ended AS (
    INSERT INTO {schema}.workflow_status AS w (workflow_uuid, status, created_at)
    SELECT id, state, 0 FROM ended
    ON CONFLICT (workflow_uuid) DO UPDATE
    SET {end:EXCLUDED}
)

-- fragment: insert_outcomes
-- Stores the outcomes of runs that end with one.
INSERT INTO {schema}.workflow_output (workflow_uuid, output, error, retention_timestamp)
SELECT id, output, error, (SELECT ms FROM clock)
FROM ended
WHERE state IN ('SUCCESS', 'ERROR')

-- name: finish
-- Ends the runs it could fence and stores their outcomes. An outcome that stands there already, of
-- an earlier life of a run, fails the statement. `fenced` is NULL if all were.
WITH {ending},
outcomes AS ({insert_outcomes})
SELECT {unfenced} AS fenced;

-- name: finish_alone
-- The same for the run $1 of the owner $2, in the state $3 with the output $4 and the error $5; a
-- statement without lists takes a part of the time. $6 is the clock's offset. A row if it was fenced.
WITH clock AS MATERIALIZED (SELECT {now_ms:6} AS ms),
fenced AS MATERIALIZED (
    SELECT w.workflow_uuid AS id
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = $1
        AND w.owner_xid = $2
        AND w.status IS NOT DISTINCT FROM 'PENDING'
    FOR NO KEY UPDATE SKIP LOCKED
),
ended AS (
    UPDATE {schema}.workflow_status w
    SET {end:asked}
    FROM (SELECT $3::text AS status) asked
    WHERE w.workflow_uuid = (SELECT id FROM fenced)
),
outcome AS (
    INSERT INTO {schema}.workflow_output (workflow_uuid, output, error, retention_timestamp)
    SELECT id, $4::text, $5::text, (SELECT ms FROM clock)
    FROM fenced
    WHERE $3 IN ('SUCCESS', 'ERROR')
)
SELECT id FROM fenced;

-- name: finish_over
-- The same over outcomes of earlier lives.
WITH {ending},
outcomes AS (
    {insert_outcomes}
    ON CONFLICT (workflow_uuid) DO UPDATE
    SET output = EXCLUDED.output, error = EXCLUDED.error,
        retention_timestamp = EXCLUDED.retention_timestamp
)
SELECT {unfenced} AS fenced;

-- name: standing_outcomes
-- How each of these workflows stands; those that do not exist are left out.
SELECT
    {outcome_columns:w}, w.owner_xid,
    COALESCE(o.output, w.output) AS output, COALESCE(o.error, w.error) AS error
FROM {schema}.workflow_status w
LEFT JOIN {schema}.workflow_output o ON o.workflow_uuid = w.workflow_uuid
WHERE w.workflow_uuid = ANY({list:3});

-- name: release
-- Gives the runs it could fence back to their queues, else to $8: DELAYED where a delay is given.
-- `fenced` is NULL if all were.
WITH clock AS MATERIALIZED (SELECT {now_ms:7} AS ms),
asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM ({texts:3}, {texts:4}, {numbers:5}, {numbers:6})
        AS asked (id, owner, delay_ms, given_back)
),
{fenced:asked},
released AS (
    UPDATE {schema}.workflow_status w
    SET status = CASE WHEN asked.delay_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END,
        delay_until_epoch_ms = CASE WHEN asked.delay_ms IS NULL THEN w.delay_until_epoch_ms
            ELSE {later:delay_ms} END,
        owner_xid = NULL,
        started_at_epoch_ms = NULL,
        queue_name = COALESCE(w.queue_name, $8::text),
        recovery_attempts = GREATEST(COALESCE(w.recovery_attempts, 0) - asked.given_back, 0),
        updated_at = (SELECT ms FROM clock)
    FROM asked
    JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner
    WHERE w.workflow_uuid = asked.id
)
SELECT {unfenced} AS fenced;

-- fragment: cancel_standing
-- Makes the workflows in the list `standing` CANCELLED.
UPDATE {schema}.workflow_status w
SET status = 'CANCELLED',
    owner_xid = NULL,
    queue_name = NULL,
    deduplication_id = NULL,
    started_at_epoch_ms = NULL,
    completed_at = (SELECT ms FROM clock),
    updated_at = (SELECT ms FROM clock)
FROM standing
WHERE w.workflow_uuid = standing.workflow_uuid
RETURNING w.workflow_uuid

-- name: lost_runs
-- Of the given (id, owner), the ids whose row is not PENDING under that owner.
SELECT asked.id AS workflow_uuid
FROM ROWS FROM ({texts:3}, {texts:4}) AS asked (id, owner)
LEFT JOIN LATERAL (
    SELECT w.status, w.owner_xid
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = asked.id
    LIMIT 1
) w ON true
WHERE (w.status = 'PENDING' AND w.owner_xid = asked.owner) IS NOT TRUE;

-- name: owned_runs
-- Every PENDING row of an executor that has an owner.
SELECT workflow_uuid, owner_xid
FROM {schema}.workflow_status
WHERE status = 'PENDING' AND executor_id = $1 AND owner_xid IS NOT NULL;
