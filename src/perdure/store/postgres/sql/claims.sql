-- Taking work from queues. Parameters: $1 boot id, $2 executor id, $3 queues, $4 to $6 the
-- functions' names, class names and config names, $7 version, $8 application, $9 the clock's offset.

-- fragment: application_scope
-- Rows of this application, and those that no application has claimed.
(w.application_name = $8 OR w.application_name IS NULL)

-- fragment: latest
-- Whether the version is the latest registered, or none is.
latest AS MATERIALIZED (
    SELECT COALESCE((
        SELECT v.version_name = $7
        FROM {schema}.application_versions v
        WHERE v.application_name = $8 OR v.application_name IS NULL
        ORDER BY v.version_timestamp DESC, v.created_at DESC, v.version_name DESC
        LIMIT 1
    ), true) AS mine
)

-- fragment: claimable
-- What a process of this application and version may claim of the queue that {arg} names: a row of its
-- version, or one of no version if its own is the latest; and only of functions it registered. IS
-- TRUE keeps the planner from joining with the functions, which would cost the index its order.
w.queue_name = {arg}.queue_name
    AND w.status = 'ENQUEUED'
    AND {application_scope}
    AND (w.application_version = $7
        OR (w.application_version IS NULL AND (SELECT mine FROM latest)))
    AND ((w.name, COALESCE(w.class_name, ''), COALESCE(w.config_name, '')) IN (
        SELECT * FROM unnest($4::text[], $5::text[], $6::text[])
    )) IS TRUE

-- name: claim
-- Takes up to $11 rows and gives each the token $10. `held` says whether the lease stands. If rows
-- were due, $12 lets them be moved to ENQUEUED and nothing is taken: `moved` says so, and the same
-- statement without $12 finds them in their place. Each queue is asked for as many as it holds of
-- the first $11 rows of all, so that no row is locked that is not taken; rows that another process
-- is taking are passed over, not waited for. The index gives each queue's order up to the id.
WITH {held_lease:1},
clock AS MATERIALIZED (SELECT {now_ms:9} AS ms),
{latest},
moved AS (
    UPDATE {schema}.workflow_status w
    SET status = 'ENQUEUED',
        deduplication_id = CASE WHEN w.is_debounced THEN NULL ELSE w.deduplication_id END
    WHERE w.workflow_uuid = ANY(ARRAY(
        SELECT w.workflow_uuid
        FROM {schema}.workflow_status w
        WHERE $12::boolean
            AND EXISTS (SELECT FROM lease)
            AND w.status = 'DELAYED'
            AND w.delay_until_epoch_ms <= (SELECT ms FROM clock)
            AND w.queue_name = ANY($3::text[])
            AND {application_scope}
        ORDER BY w.delay_until_epoch_ms
        LIMIT 1000
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING w.workflow_uuid
),
shares AS MATERIALIZED (
    SELECT queue_name, count(*) AS share
    FROM (
        SELECT first.*
        FROM unnest($3::text[]) AS queues (queue_name)
        CROSS JOIN LATERAL (
            SELECT w.queue_name, w.priority, w.created_at, w.workflow_uuid
            FROM {schema}.workflow_status w
            WHERE {claimable:queues}
            ORDER BY w.priority, w.created_at, w.workflow_uuid
            LIMIT $11::bigint
        ) first
        WHERE EXISTS (SELECT FROM lease) AND NOT EXISTS (SELECT FROM moved)
        ORDER BY first.priority, first.created_at, first.workflow_uuid
        LIMIT $11::bigint
    ) first
    GROUP BY queue_name
),
taken AS MATERIALIZED (
    SELECT row.workflow_uuid
    FROM shares
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid
        FROM {schema}.workflow_status w
        WHERE {claimable:shares}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT shares.share
        FOR NO KEY UPDATE SKIP LOCKED
    ) row
),
claimed AS (
    UPDATE {schema}.workflow_status w
    SET status = 'PENDING',
        owner_xid = $10::text,
        executor_id = $2,
        application_version = $7,
        application_name = $8,
        started_at_epoch_ms = (SELECT ms FROM clock),
        rate_limited = false,
        recovery_attempts = COALESCE(w.recovery_attempts, 0) + 1,
        updated_at = (SELECT ms FROM clock),
        workflow_deadline_epoch_ms = CASE
            WHEN w.workflow_deadline_epoch_ms IS NULL AND w.workflow_timeout_ms IS NOT NULL
            THEN {later:workflow_timeout_ms} ELSE w.workflow_deadline_epoch_ms END
    WHERE w.workflow_uuid = ANY(ARRAY(SELECT workflow_uuid FROM taken))
    RETURNING {claimed_columns:w}, w.priority, w.inputs AS legacy_inputs
)
SELECT
    EXISTS (SELECT FROM moved) AS moved,
    {claimed_columns:c}, COALESCE(i.inputs, c.legacy_inputs) AS inputs,
    c.workflow_deadline_epoch_ms - (SELECT ms FROM clock) AS deadline_left_ms
FROM lease
LEFT JOIN claimed c ON true
LEFT JOIN LATERAL (
    SELECT input.inputs FROM {schema}.workflow_input input
    WHERE input.workflow_uuid = c.workflow_uuid
    LIMIT 1
) i ON true
ORDER BY c.priority, c.created_at, c.workflow_uuid;

-- name: claimed_before
-- The rows that bear the token $1 of a claim that was tried before, as the claim returns them.
SELECT
    {claimed_columns:w}, COALESCE(i.inputs, w.inputs) AS inputs,
    w.workflow_deadline_epoch_ms - {now_ms:2} AS deadline_left_ms
FROM {schema}.workflow_status w
LEFT JOIN {schema}.workflow_input i ON i.workflow_uuid = w.workflow_uuid
WHERE w.status = 'PENDING' AND w.owner_xid = $1
ORDER BY w.priority, w.created_at, w.workflow_uuid;
