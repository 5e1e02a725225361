-- Moving what is due and ending what is overdue. $1 is the application and $2 the instant of the
-- sweep.

-- fragment: ends_at
-- When others may end a workflow whose deadline passes: the process that runs it does so exactly,
-- and is left some time for it.
LEAST(w.workflow_deadline_epoch_ms, 9223372036854775807 - {pending_grace_ms})
    + CASE w.status WHEN 'PENDING' THEN {pending_grace_ms} ELSE 0 END

-- name: cancel_overdue
-- Cancels up to $3 workflows whose deadline has passed, the longest overdue first. Rows somebody
-- has locked wait for another time.
WITH clock AS MATERIALIZED (SELECT $2::bigint AS ms),
standing AS MATERIALIZED (
    SELECT w.workflow_uuid
    FROM {schema}.workflow_status w
    WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
        AND w.workflow_deadline_epoch_ms <= (SELECT ms FROM clock)
        AND {ends_at} <= (SELECT ms FROM clock)
        AND {application_scope:1}
    ORDER BY w.workflow_deadline_epoch_ms
    LIMIT $3::bigint
    FOR NO KEY UPDATE SKIP LOCKED
)
{cancel_standing};

-- name: enqueue_due
-- Makes up to $3 DELAYED workflows ENQUEUED whose time has come, the longest due first. `updated_at`
-- stays, as the other SDKs leave it.
UPDATE {schema}.workflow_status w
SET status = 'ENQUEUED',
    deduplication_id = CASE WHEN w.is_debounced THEN NULL ELSE w.deduplication_id END
WHERE w.workflow_uuid = ANY(ARRAY(
    SELECT w.workflow_uuid
    FROM {schema}.workflow_status w
    WHERE w.status = 'DELAYED'
        AND w.delay_until_epoch_ms <= $2::bigint
        AND {application_scope:1}
    ORDER BY w.delay_until_epoch_ms
    LIMIT $3::bigint
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING w.queue_name;

-- fragment: next_sweep_at
-- When the next row after `swept` is due or overdue. The parameter {arg} is the application. Of the
-- deadlines only the first are looked at: one among them may leave more time than one behind them.
(
    SELECT min(next.at)
    FROM (
        SELECT delayed.at
        FROM (
            SELECT w.delay_until_epoch_ms AS at
            FROM {schema}.workflow_status w
            WHERE w.status = 'DELAYED'
                AND w.delay_until_epoch_ms > (SELECT ms FROM swept)
                AND {application_scope:{arg}}
            ORDER BY w.delay_until_epoch_ms
            LIMIT 1
        ) delayed
        UNION ALL
        SELECT bounded.at
        FROM (
            SELECT {ends_at} AS at
            FROM {schema}.workflow_status w
            WHERE w.status IN ('ENQUEUED', 'PENDING', 'DELAYED')
                AND w.workflow_deadline_epoch_ms > (SELECT ms FROM swept) - {pending_grace_ms}
                AND {ends_at} > (SELECT ms FROM swept)
                AND {application_scope:{arg}}
            ORDER BY w.workflow_deadline_epoch_ms
            LIMIT 100
        ) bounded
    ) next
)

-- name: next_sweep
-- When there is something to do again, after $2. What was due and nevertheless left is locked by
-- somebody: a heartbeat will name it.
WITH swept AS MATERIALIZED (SELECT $2::bigint AS ms)
SELECT {next_sweep_at:1} AS next_at;
