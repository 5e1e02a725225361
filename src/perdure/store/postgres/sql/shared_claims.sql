-- Claims from queues with limits that the fleet shares: under the lock of each queue's row, what uses
-- the limits up is read by a statement that begins after it, and rows are taken by a third.

-- fragment: has_work
-- Whether anything waits in queue `q`: an empty one needs no lock, and is kept from nobody.
EXISTS (
    SELECT FROM {schema}.workflow_status w
    WHERE w.queue_name = q.name AND w.status = 'ENQUEUED'
)

-- name: lock_queues
-- Locks the rows of those of the queues $2 of application $3 in which work waits, whose lock is the
-- queue's own, as far as nobody else has them; and the lease of boot $1, without which nothing is
-- found. Until the transaction is over the server waits no longer than $4 for the next statement:
-- this process may stand still.
WITH {held_lease:1},
locked AS MATERIALIZED (
    SELECT q.name
    FROM {schema}.queues q
    WHERE q.name = ANY($2::text[]) AND {registered:3} AND EXISTS (SELECT FROM lease) AND {has_work}
    ORDER BY q.name
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT
    q.name, locked.name IS NOT NULL AS is_locked,
    set_config('idle_in_transaction_session_timeout', $4, true) AS idle_limit
FROM lease
LEFT JOIN {schema}.queues q ON q.name = ANY($2::text[]) AND {registered:3} AND {has_work}
LEFT JOIN locked ON locked.name = q.name;

-- fragment: period_ms
-- The period of a rate in milliseconds; other programs check no bounds.
CASE WHEN q.{arg} IS NOT NULL THEN LEAST(ceil(q.{arg} * 1000), 1e15)::bigint END

-- fragment: frees_at
-- When the window has room for one more claim, if it has none: the last so many claims without the
-- first of them are less than the limit.
(array_agg(claim.started_at ORDER BY claim.started_at DESC))[q.{arg}] + rate.period_ms

-- fragment: pending
-- A PENDING workflow of queue `q`. The state comes from the list `sought`, for if it were given as
-- such, walking all PENDING rows would look cheap while there are few.
w.queue_name = q.name
    AND w.status = sought.state
    AND w.status IN ('ENQUEUED', 'PENDING')
    AND {application_scope:2}

-- fragment: claimed_elsewhere
-- Claims since then that another program made: their time is in the row, and no log has it. The pair
-- is compared as a whole to leave one index only, and the log is looked up for each row.
{schema}.workflow_status w
    WHERE w.queue_name = q.name
        AND (w.queue_name, w.started_at_epoch_ms) > (q.name, rate.since)
        AND w.rate_limited
        AND w.status NOT IN ('ENQUEUED', 'DELAYED')
        AND {application_scope:2}
        AND (
            SELECT 1 FROM {own}.rate_log l
            WHERE l.queue_name = w.queue_name
                AND l.started_at = w.started_at_epoch_ms
                AND l.workflow_id = w.workflow_uuid
        ) IS NULL

-- name: queue_usage
-- The queues $1 of application $2 and what their limits are used by. $3 is the clock's offset.
-- Nothing is counted where there is no limit.
SELECT {queue_columns:q}, {setting_columns:s}, used.pending, started.claims, started.frees_at
FROM {schema}.queues q
LEFT JOIN {own}.queue_settings s ON s.queue_name = q.name
CROSS JOIN (SELECT {now_ms:3} AS ms OFFSET 0) clock
CROSS JOIN LATERAL (
    SELECT
        {period_ms:rate_limit_period_sec} AS period_ms,
        clock.ms - {period_ms:rate_limit_period_sec} AS since
) rate
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (SELECT 'PENDING' AS state WHERE q.concurrency IS NOT NULL OFFSET 0) sought
    CROSS JOIN LATERAL (
        SELECT FROM {schema}.workflow_status w WHERE {pending} OFFSET 0
    ) running
) used
CROSS JOIN LATERAL (
    SELECT count(*) AS claims, {frees_at:rate_limit_max} AS frees_at
    FROM (
        SELECT l.started_at
        FROM {own}.rate_log l
        WHERE l.queue_name = q.name AND l.started_at > rate.since
        UNION ALL
        SELECT w.started_at_epoch_ms FROM {claimed_elsewhere}
    ) claim
) started
WHERE q.name = ANY($1::text[]) AND {registered:2};

-- fragment: usage_of_partitions
-- What the limits of each partition in the list `visited` are used by. $2 is the application, $3 the
-- clock's offset. What other programs claimed is looked up once for all, for no index finds it by
-- its partition.
clock AS MATERIALIZED (SELECT {now_ms:3} AS ms),
limited AS MATERIALIZED (
    SELECT
        q.name, q.partition_concurrency, q.partition_rate_limit_max,
        {period_ms:partition_rate_limit_period_sec} AS period_ms,
        clock.ms - {period_ms:partition_rate_limit_period_sec} AS since
    FROM {schema}.queues q
    CROSS JOIN clock
    WHERE q.name = ANY($1::text[])
),
elsewhere AS MATERIALIZED (
    SELECT w.queue_name, w.queue_partition_key AS key, w.started_at_epoch_ms AS started_at
    FROM limited q
    CROSS JOIN LATERAL (SELECT q.since) rate
    CROSS JOIN LATERAL (
        SELECT w.queue_name, w.queue_partition_key, w.started_at_epoch_ms
        FROM {claimed_elsewhere} AND w.queue_partition_key IS NOT NULL
        OFFSET 0
    ) w
)
SELECT
    visited.queue_name, visited.key, visited.wrapped,
    used.pending, started.claims, started.frees_at
FROM visited
CROSS JOIN LATERAL (SELECT * FROM limited WHERE limited.name = visited.queue_name LIMIT 1) q
CROSS JOIN LATERAL (SELECT q.since, q.period_ms) rate
CROSS JOIN LATERAL (
    SELECT count(*) AS pending
    FROM (SELECT 'PENDING' AS state WHERE q.partition_concurrency IS NOT NULL OFFSET 0) sought
    CROSS JOIN LATERAL (
        SELECT FROM {schema}.workflow_status w
        WHERE {pending} AND w.queue_partition_key = visited.key
        OFFSET 0
    ) running
) used
CROSS JOIN LATERAL (
    SELECT count(*) AS claims, {frees_at:partition_rate_limit_max} AS frees_at
    FROM (
        SELECT l.started_at
        FROM {own}.rate_log l
        WHERE l.queue_name = q.name
            AND l.partition_key = visited.key
            AND l.started_at > rate.since
        UNION ALL
        SELECT e.started_at
        FROM elsewhere e
        WHERE e.queue_name = q.name AND e.key = visited.key
    ) claim
) started

-- name: partition_usage
-- What the limits of the partitions $4 of the queues $1, each in the other's place, are used by.
WITH visited AS MATERIALIZED (
    SELECT asked.queue_name, asked.key, false AS wrapped
    FROM unnest($1::text[], $4::text[]) AS asked (queue_name, key)
),
{usage_of_partitions};

-- name: partition_heads
-- The same for the first $5 partitions with ENQUEUED rows of each of the queues $1: in the order of
-- their keys behind the one that $4 has in the queue's place, and from the first one on (`wrapped`)
-- behind the last. The index is entered once for each key, however many rows that has.
WITH RECURSIVE walk AS (
    SELECT
        asked.queue_name, asked.key AS after_key, asked.key, false AS wrapped, 0::bigint AS place
    FROM unnest($1::text[], $4::text[]) AS asked (queue_name, key)
    UNION ALL
    SELECT walk.queue_name, walk.after_key, next.key, next.wrapped, walk.place + 1
    FROM walk
    CROSS JOIN LATERAL (
        SELECT (
            SELECT w.queue_partition_key
            FROM {schema}.workflow_status w
            WHERE w.queue_name = walk.queue_name
                AND w.status = 'ENQUEUED'
                AND w.queue_partition_key > walk.key
                AND (NOT walk.wrapped OR w.queue_partition_key <= walk.after_key)
            ORDER BY w.queue_partition_key
            LIMIT 1
        ) AS key
        OFFSET 0
    ) ahead
    CROSS JOIN LATERAL (
        SELECT
            COALESCE(ahead.key, CASE WHEN NOT walk.wrapped THEN (
                SELECT w.queue_partition_key
                FROM {schema}.workflow_status w
                WHERE w.queue_name = walk.queue_name
                    AND w.status = 'ENQUEUED'
                    AND w.queue_partition_key <= walk.after_key
                ORDER BY w.queue_partition_key
                LIMIT 1
            ) END) AS key,
            walk.wrapped OR ahead.key IS NULL AS wrapped
        OFFSET 0
    ) next
    WHERE walk.place < $5::bigint AND next.key IS NOT NULL
),
visited AS MATERIALIZED (
    SELECT walk.queue_name, walk.key, walk.wrapped, walk.place FROM walk WHERE walk.place > 0
),
{usage_of_partitions}
ORDER BY visited.queue_name, visited.place;

-- name: claim_shared
-- Takes up to $15 rows of several queues as `claim` does. In the same place of $3, $13, $11 and $14
-- stand a queue and a partition key of it (NULL: all of the queue), how many to look for there, and
-- how many to take from the queue at most. Which they are is found out first, so that no row is
-- locked that is not taken. $12 are the queues with a rate: their claims are logged, all later than
-- the last one before, for the same workflow may be claimed twice in a millisecond; up to $16 of
-- each that no window reaches any more are forgotten.
WITH {held_lease:1},
clock AS MATERIALIZED (
    SELECT LEAST(now.ms + 1000, GREATEST(now.ms, (
        SELECT max(last.started_at) + 1
        FROM unnest($12::text[]) AS rated (queue_name)
        CROSS JOIN LATERAL (
            SELECT l.started_at
            FROM {own}.rate_log l
            WHERE l.queue_name = rated.queue_name
            ORDER BY l.started_at DESC
            LIMIT 1
        ) last
    ))) AS ms
    FROM (SELECT {now_ms:9} AS ms) now
),
{latest},
parts AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (unnest($3::text[]), unnest($13::text[]), {numbers:11}, {numbers:14})
        WITH ORDINALITY AS parts (queue_name, key, share, total, place)
),
firsts AS MATERIALIZED (
    SELECT parts.place, parts.queue_name, parts.total, first.*
    FROM parts
    CROSS JOIN LATERAL (
        SELECT w.priority, w.created_at, w.workflow_uuid
        FROM {schema}.workflow_status w
        WHERE w.queue_partition_key = parts.key AND {claimable:parts}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT 1
    ) first
    WHERE parts.key IS NOT NULL AND parts.share > 0
),
-- Where the first rows of the partitions are enough, no second one comes before the last of them,
-- unless it is more urgent.
bounds AS MATERIALIZED (
    SELECT
        queue_name,
        COALESCE((array_agg(priority ORDER BY priority))[min(total)::integer], 2147483648) AS priority
    FROM firsts
    GROUP BY queue_name
),
candidates AS MATERIALIZED (
    SELECT parts.place, parts.queue_name, parts.total, first.*
    FROM parts
    CROSS JOIN LATERAL (
        SELECT w.priority, w.created_at, w.workflow_uuid
        FROM {schema}.workflow_status w
        WHERE {claimable:parts}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT parts.share
    ) first
    WHERE parts.key IS NULL
    UNION ALL
    SELECT * FROM firsts
    UNION ALL
    SELECT parts.place, parts.queue_name, parts.total, next.*
    FROM parts
    CROSS JOIN LATERAL (
        SELECT bounds.priority FROM bounds WHERE bounds.queue_name = parts.queue_name LIMIT 1
    ) bound
    CROSS JOIN LATERAL (
        SELECT w.priority, w.created_at, w.workflow_uuid
        FROM {schema}.workflow_status w
        WHERE w.queue_partition_key = parts.key
            AND w.priority < bound.priority
            AND {claimable:parts}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT parts.share - 1
        OFFSET 1
    ) next
    WHERE parts.key IS NOT NULL AND parts.share > 1
),
turns AS (
    SELECT *, row_number() OVER (
        PARTITION BY place ORDER BY priority, created_at, workflow_uuid
    ) AS turn
    FROM candidates
),
numbered AS (
    SELECT *, row_number() OVER (
        PARTITION BY queue_name ORDER BY priority, turn, created_at, workflow_uuid
    ) AS number
    FROM turns
),
chosen AS MATERIALIZED (
    SELECT parts.queue_name, parts.key, count(*) AS share
    FROM (
        SELECT place
        FROM numbered
        WHERE number <= total
        ORDER BY priority, created_at, workflow_uuid
        LIMIT $15::bigint
    ) first
    JOIN parts ON parts.place = first.place
    GROUP BY parts.queue_name, parts.key
),
taken AS MATERIALIZED (
    SELECT row.workflow_uuid, row.version
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid, w.xmin AS version
        FROM {schema}.workflow_status w
        WHERE {claimable:chosen}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT chosen.share
        FOR NO KEY UPDATE SKIP LOCKED
    ) row
    WHERE chosen.key IS NULL
    UNION ALL
    SELECT row.workflow_uuid, row.version
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid, w.xmin AS version
        FROM {schema}.workflow_status w
        WHERE w.queue_partition_key = chosen.key AND {claimable:chosen}
        ORDER BY w.priority, w.created_at, w.workflow_uuid
        LIMIT chosen.share
        FOR NO KEY UPDATE SKIP LOCKED
    ) row
    WHERE chosen.key IS NOT NULL
),
{claimed:12},
logged AS (
    INSERT INTO {own}.rate_log (queue_name, started_at, workflow_id, partition_key)
    SELECT c.queue_name, (SELECT ms FROM clock), c.workflow_uuid, c.queue_partition_key
    FROM claimed c
    WHERE c.queue_name = ANY($12::text[])
),
pruned AS (
    DELETE FROM {own}.rate_log
    WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM {schema}.queues q
        CROSS JOIN LATERAL (
            SELECT l.ctid
            FROM {own}.rate_log l
            WHERE l.queue_name = q.name
                AND l.started_at < (SELECT ms FROM clock) - 2 * GREATEST(
                    {period_ms:rate_limit_period_sec}, {period_ms:partition_rate_limit_period_sec}
                )
            ORDER BY l.started_at
            LIMIT $16::bigint
        ) old
        WHERE q.name = ANY($12::text[])
    ))
)
{claimed_rows};
