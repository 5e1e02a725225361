-- Taking work from queues. Parameters: $1 boot id, $2 executor id, $3 queues, $4 to $6 the
-- functions' names, class names and config names, $7 version, $8 application, $9 the clock's offset,
-- $10 the token.

-- fragment: application_scope
-- Rows of this application, and those that no application has claimed.
(w.application_name = ${arg} OR w.application_name IS NULL)

-- fragment: latest
-- Whether the version is the latest registered, or none is.
latest AS MATERIALIZED (SELECT COALESCE({latest_version:8} = $7, true) AS mine)

-- fragment: claimable
-- What a process of this application and version may claim of the queue that {arg} names: a row of its
-- version, or one of no version if its own is the latest; and only of functions it registered. IS
-- TRUE keeps the planner from joining with the functions, which would cost the index its order.
w.queue_name = {arg}.queue_name
    AND w.status = 'ENQUEUED'
    AND {application_scope:8}
    AND (w.application_version = $7
        OR (w.application_version IS NULL AND (SELECT mine FROM latest)))
    AND ((w.name, COALESCE(w.class_name, ''), COALESCE(w.config_name, '')) IN (
        SELECT * FROM unnest($4::text[], $5::text[], $6::text[])
    )) IS TRUE

-- fragment: claimed
-- Gives what was taken the token $10. The queues in the list {arg} have a rate.
claimed AS (
    UPDATE {schema}.workflow_status w
    SET status = 'PENDING',
        owner_xid = $10::text,
        executor_id = $2,
        application_version = $7,
        application_name = $8,
        started_at_epoch_ms = (SELECT ms FROM clock),
        rate_limited = w.queue_name = ANY(${arg}::text[]),
        recovery_attempts = COALESCE(w.recovery_attempts, 0) + 1,
        updated_at = (SELECT ms FROM clock),
        workflow_deadline_epoch_ms = CASE
            WHEN w.workflow_deadline_epoch_ms IS NULL AND w.workflow_timeout_ms IS NOT NULL
            THEN {later:workflow_timeout_ms} ELSE w.workflow_deadline_epoch_ms END
    WHERE w.workflow_uuid = ANY(ARRAY(SELECT workflow_uuid FROM taken))
    RETURNING {claimed_columns:w}, w.priority, w.inputs AS legacy_inputs
)

-- fragment: has_steps
-- Whether the workflow had a recorded step when the statement began.
(
    SELECT 1 FROM {schema}.operation_outputs o WHERE o.workflow_uuid = {arg}.workflow_uuid LIMIT 1
) IS NOT NULL

-- fragment: changed_meanwhile
-- Whether a row that was taken is not the one that was there when the statement began: somebody may
-- have run that workflow and given it back since, and what he recorded is not seen here.
EXISTS (
    SELECT
    FROM taken
    CROSS JOIN LATERAL (
        SELECT w.xmin AS version
        FROM {schema}.workflow_status w
        WHERE w.workflow_uuid = taken.workflow_uuid
        LIMIT 1
    ) before
    WHERE before.version <> taken.version
)

-- fragment: claimed_rows
-- What was claimed, in the order of claims: no row at all if the lease does not stand, one without
-- a workflow if there was nothing to take.
SELECT
    {claimed_columns:c}, c.priority, COALESCE(i.inputs, c.legacy_inputs) AS inputs,
    {has_steps:c} OR {changed_meanwhile} AS may_have_steps,
    c.workflow_deadline_epoch_ms - (SELECT ms FROM clock) AS deadline_left_ms
FROM lease
LEFT JOIN claimed c ON true
LEFT JOIN LATERAL (
    SELECT input.inputs FROM {schema}.workflow_input input
    WHERE input.workflow_uuid = c.workflow_uuid
    LIMIT 1
) i ON true
ORDER BY c.priority, c.created_at, c.workflow_uuid

-- name: claim
-- Takes from each queue as many rows as $11 says in its place. Rows that another process is taking
-- are passed over, not waited for. The index gives each queue's order up to the id. A queue that is
-- paused or deleted by now, or has limits that the fleet shares, gives nothing, whatever the caller
-- knew of it; the lock on its row makes whoever changes that wait for claims under way. No queue has
-- a rate: $12 is empty.
-- The disk is not waited for: what the runs record later is behind it in the log, and a server that
-- crashes before gives back what no run has recorded anything for, to be claimed again.
WITH {held_lease:1},
clock AS MATERIALIZED (
    SELECT {now_ms:9} AS ms, set_config('synchronous_commit', 'off', true)
),
{latest},
unlimited AS MATERIALIZED (
    SELECT q.name
    FROM {schema}.queues q
    WHERE q.name = ANY($3::text[])
        AND {registered:8}
        AND EXISTS (SELECT FROM lease)
        AND q.concurrency IS NULL
        AND q.partition_concurrency IS NULL
        AND q.partition_worker_concurrency IS NULL
        AND (q.rate_limit_max IS NULL OR q.rate_limit_period_sec IS NULL)
        AND (q.partition_rate_limit_max IS NULL OR q.partition_rate_limit_period_sec IS NULL)
        AND NOT EXISTS (
            SELECT FROM {own}.queue_settings s
            WHERE s.queue_name = q.name AND (s.partitioned OR s.paused_at IS NOT NULL)
        )
    FOR KEY SHARE OF q SKIP LOCKED
),
shares AS MATERIALIZED (
    SELECT asked.queue_name, asked.share
    FROM ROWS FROM (unnest($3::text[]), {numbers:11}) AS asked (queue_name, share)
    WHERE EXISTS (SELECT FROM lease)
        AND (
            asked.queue_name IN (SELECT name FROM unlimited)
            OR asked.queue_name IN ({internal_queues})
        )
),
taken AS MATERIALIZED (
    SELECT row.workflow_uuid, row.version
    FROM shares
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid, w.xmin AS version
        FROM {schema}.workflow_status w
        WHERE {claimable:shares}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT shares.share
        FOR NO KEY UPDATE SKIP LOCKED
    ) row
),
{claimed:12}
{claimed_rows};

-- name: claimed_before
-- The rows that bear the token $1 of a claim that was tried before, as the claim returns them.
SELECT
    {claimed_columns:w}, w.priority, COALESCE(i.inputs, w.inputs) AS inputs,
    {has_steps:w} AS may_have_steps,
    w.workflow_deadline_epoch_ms - {now_ms:2} AS deadline_left_ms
FROM {schema}.workflow_status w
LEFT JOIN {schema}.workflow_input i ON i.workflow_uuid = w.workflow_uuid
WHERE w.status = 'PENDING' AND w.owner_xid = $1
ORDER BY w.priority, w.created_at, w.workflow_uuid;
