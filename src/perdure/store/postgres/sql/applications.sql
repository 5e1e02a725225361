-- Giving what one application owns to another. $1 is the old name, $2 the new one, and $3 says
-- whether what is nobody's moves too.

-- fragment: renamed
-- Rows of table {arg} that move.
({arg}.application_name = $1::text OR ($3::boolean AND {arg}.application_name IS NULL))

-- name: living_executors
-- The processes of an application whose lease has not run out. $2 is the clock's offset.
SELECT l.executor_id FROM {own}.leases l
WHERE l.application_name = $1 AND l.taken_at IS NULL AND l.expires_at > {now_ms:2}
ORDER BY l.executor_id;

-- name: rename_registrations
-- Moves queues, schedules and versions, and the leases of processes of the old name.
WITH queues AS (
    UPDATE {schema}.queues q SET application_name = $2::text WHERE {renamed:q} RETURNING 1
),
schedules AS (
    UPDATE {schema}.workflow_schedules s SET application_name = $2::text WHERE {renamed:s}
    RETURNING 1
),
versions AS (
    UPDATE {schema}.application_versions v SET application_name = $2::text WHERE {renamed:v}
    RETURNING 1
),
leases AS (
    UPDATE {own}.leases l SET application_name = $2::text WHERE l.application_name = $1::text
)
SELECT
    (SELECT count(*) FROM queues) AS queues,
    (SELECT count(*) FROM schedules) AS schedules,
    (SELECT count(*) FROM versions) AS versions;

-- name: rename_in_flight
-- Moves up to $4 workflows that have not ended.
WITH chosen AS MATERIALIZED (
    SELECT w.workflow_uuid
    FROM {schema}.workflow_status w
    WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND {renamed:w}
    ORDER BY w.workflow_uuid COLLATE "C"
    LIMIT $4::bigint
    FOR NO KEY UPDATE
),
moved AS (
    UPDATE {schema}.workflow_status w SET application_name = $2::text
    WHERE w.workflow_uuid = ANY(ARRAY(SELECT workflow_uuid FROM chosen))
    RETURNING 1
)
SELECT count(*) AS number FROM moved;

-- fragment: renaming
-- How far the list `page` of ids goes.
last AS MATERIALIZED (
    SELECT max(workflow_uuid) AS id, count(*) AS looked FROM page
)

-- name: rename_workflows
-- Moves those of the $5 workflows from $4 on that are left, and names the last one looked at.
WITH page AS MATERIALIZED (
    SELECT w.workflow_uuid
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid >= $4::text
    ORDER BY w.workflow_uuid
    LIMIT $5::bigint
),
{renaming},
moved AS (
    UPDATE {schema}.workflow_status w SET application_name = $2::text
    WHERE w.workflow_uuid >= $4::text
        AND w.workflow_uuid <= (SELECT id FROM last)
        AND {renamed:w}
    RETURNING 1
)
SELECT last.id, last.looked, (SELECT count(*) FROM moved) AS number FROM last;

-- name: rename_steps
-- The same of steps, of $5 workflows that have some.
WITH page AS MATERIALIZED (
    SELECT DISTINCT s.workflow_uuid
    FROM {schema}.operation_outputs s
    WHERE s.workflow_uuid >= $4::text
    ORDER BY s.workflow_uuid
    LIMIT $5::bigint
),
{renaming},
moved AS (
    UPDATE {schema}.operation_outputs s SET application_name = $2::text
    WHERE s.workflow_uuid >= $4::text
        AND s.workflow_uuid <= (SELECT id FROM last)
        AND {renamed:s}
    RETURNING 1
)
SELECT last.id, last.looked, (SELECT count(*) FROM moved) AS number FROM last;
