-- Removing workflows that ended long ago. $1 is the application, $2 the instant before which they
-- ended, $3 their states and $4 their names, all if that is empty. $5 is the instant from which to
-- look, and $6 how many ended rows to look at.

-- fragment: horizon
-- How far to look: as many ended rows as asked, and all that ended with the last of them.
horizon AS MATERIALIZED (
    SELECT COALESCE((
        SELECT w.completed_at
        FROM {schema}.workflow_status w
        WHERE w.completed_at >= $5::bigint AND w.completed_at < $2::bigint
        ORDER BY w.completed_at
        OFFSET $6::bigint
        LIMIT 1
    ), $2::bigint - 1) AS ms
)

-- fragment: wanted
-- Ended workflows that are to go as far as they themselves are concerned.
w.completed_at < $2::bigint
    AND w.status = ANY($3::text[])
    AND (cardinality($4::text[]) = 0 OR w.name = ANY($4::text[]))
    AND {application_scope:1}

-- fragment: parent
-- The parent of a workflow, if it exists.
LEFT JOIN LATERAL (
    SELECT p.workflow_uuid, p.status, p.completed_at
    FROM {schema}.workflow_status p
    WHERE p.workflow_uuid = w.parent_workflow_id
    LIMIT 1
) parent ON true

-- fragment: over
-- Whether a parent, named {arg}, ended long ago.
({arg}.status IN ('SUCCESS', 'ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED')
    AND {arg}.completed_at < $2::bigint)

-- fragment: expired_rows
-- The wanted up to the horizon whose parent is over or gone.
FROM {schema}.workflow_status w
{parent}
WHERE w.completed_at >= $5::bigint
    AND w.completed_at <= (SELECT ms FROM horizon)
    AND {wanted}
    AND (parent.workflow_uuid IS NULL OR {over:parent})

-- name: lock_expired
-- Locks up to $7 of them against whoever would continue, copy or change them, the longest ended
-- first. The first row is the horizon.
WITH {horizon},
locked AS MATERIALIZED (
    SELECT w.workflow_uuid, w.completed_at, parent.workflow_uuid AS parent_id
    {expired_rows}
    ORDER BY w.completed_at
    LIMIT $7::bigint
    FOR UPDATE OF w SKIP LOCKED
)
SELECT NULL::text AS workflow_uuid, ms AS completed_at, NULL::text AS parent_id FROM horizon
UNION ALL
SELECT workflow_uuid, completed_at, parent_id FROM locked;

-- name: lock_ended_parents
-- Those of the parents in the list $1 that ended before $2, kept from being continued until the
-- transaction is over.
SELECT locked.workflow_uuid
FROM unnest($1::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT p.workflow_uuid
    FROM {schema}.workflow_status p
    WHERE p.workflow_uuid = asked.id AND {over:p}
    FOR SHARE SKIP LOCKED
) locked;

-- name: count_expired
-- How many there are up to the horizon, and the horizon.
WITH {horizon}
SELECT (SELECT ms FROM horizon) AS horizon, count(*) AS number
{expired_rows};

-- name: kept_since
-- When the last of the $5 newest of the wanted ended.
SELECT w.completed_at
FROM {schema}.workflow_status w
WHERE {wanted}
ORDER BY w.completed_at DESC
OFFSET $5::bigint - 1
LIMIT 1;

-- name: forget_claims
-- Forgets up to $2 logged claims before $1 that no window of their queue reaches back to. $3 is the
-- clock's offset.
WITH clock AS MATERIALIZED (SELECT {now_ms:3} AS ms),
forgotten AS (
    DELETE FROM {own}.rate_log
    WHERE ctid = ANY(ARRAY(
        SELECT l.ctid
        FROM {own}.rate_log l
        LEFT JOIN {schema}.queues q ON q.name = l.queue_name
        WHERE l.started_at < $1::bigint
            AND l.started_at < (SELECT ms FROM clock) - 2 * COALESCE(GREATEST(
                {period_ms:rate_limit_period_sec}, {period_ms:partition_rate_limit_period_sec}
            ), 0)
        LIMIT $2::bigint
    ))
    RETURNING 1
)
SELECT count(*) AS number FROM forgotten;
