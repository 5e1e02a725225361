-- Leases of process starts, and what a heartbeat looks at.

-- name: open_lease
-- Inserts a lease, or refreshes the boot's own; nothing if it was taken, or if it is gone and $6
-- says that it stood before. $7 is what the process serves. No lock is recorded until it is held.
INSERT INTO {own}.leases AS l (
    boot_id, executor_id, application_name, renewed_at, expires_at, period_ms, created_at, serves
)
SELECT $1::text, $2::text, $3::text, ms, ms + $4::bigint, $4::bigint, ms, $7::text
FROM (SELECT {now_ms:5} AS ms) clock
WHERE NOT $6::boolean OR EXISTS (SELECT FROM {own}.leases WHERE boot_id = $1)
ON CONFLICT (boot_id) DO UPDATE
SET renewals = l.renewals + 1,
    renewed_at = EXCLUDED.renewed_at,
    expires_at = EXCLUDED.expires_at,
    period_ms = EXCLUDED.period_ms,
    serves = EXCLUDED.serves,
    lock_key = NULL,
    backend_pid = NULL,
    server_started_at = NULL
WHERE l.taken_at IS NULL
RETURNING l.boot_id;

-- name: take_lock
-- Takes the session lock that shows that the process lives.
SELECT pg_try_advisory_lock($1::bigint) AS taken, pg_backend_pid() AS pid;

-- fragment: held_locks
-- The keys of all advisory locks of 64 bits that somebody holds in this database.
SELECT (locks.classid::bigint << 32) | locks.objid::bigint AS key, locks.pid
FROM pg_catalog.pg_locks locks
WHERE locks.locktype = 'advisory'
    AND locks.objsubid = 1
    AND locks.granted
    AND locks.database = (
        SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()
    )

-- fragment: server_started_ms
-- When the server was started: it forgets its locks then.
(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint

-- name: record_lock
-- Writes down which lock the boot holds, if this session is still the one that took it. Behind a
-- pooler it may be another, and the lock would show the life of the pooler's connection.
UPDATE {own}.leases
SET lock_key = $2::bigint, backend_pid = $3::integer, server_started_at = {server_started_ms}
WHERE boot_id = $1
    AND taken_at IS NULL
    AND pg_backend_pid() = $3
    AND EXISTS (SELECT FROM ({held_locks}) held WHERE held.key = $2 AND held.pid = $3)
RETURNING boot_id;

-- name: beat
-- Renews the lease of boot $1 for $2 ms and looks around, in one row for each suspect, or in one
-- without. Suspects are leases of this application that are overdue or whose recorded lock is free,
-- and executors of PENDING rows without a lease. Those are looked for in pages of $10 rows in the
-- order of creation, after ($11, $12); the page after this one begins after `last_created_at` and
-- `last_id`. A page with an orphan is to be looked at again, for only who is seen twice is judged.
-- The other parameters are those of a claim: `ready` are the queues in which it would find something
-- if there were no limits. A session that is not the one that took the lock forgets it.
WITH clock AS MATERIALIZED (SELECT {now_ms:9} AS ms),
swept AS MATERIALIZED (SELECT -1::bigint AS ms),
{latest},
renewed AS (
    UPDATE {own}.leases
    SET renewals = renewals + 1,
        renewed_at = (SELECT ms FROM clock),
        expires_at = (SELECT ms FROM clock) + $2::bigint,
        period_ms = $2,
        lock_key = CASE WHEN backend_pid = pg_backend_pid() THEN lock_key END
    WHERE boot_id = $1 AND taken_at IS NULL
    RETURNING boot_id
),
held AS MATERIALIZED ({held_locks}),
others AS (
    SELECT
        l.boot_id, l.executor_id, l.renewals, l.expires_at <= (SELECT ms FROM clock) AS overdue,
        CASE
            WHEN l.lock_key IS NULL OR l.server_started_at IS DISTINCT FROM {server_started_ms}
                THEN 'unknown'
            WHEN l.lock_key IN (SELECT key FROM held) THEN 'held'
            ELSE 'free'
        END AS lock
    FROM {own}.leases l
    WHERE l.application_name = $8 AND l.boot_id <> $1
),
page AS MATERIALIZED (
    SELECT w.created_at, w.workflow_uuid, w.executor_id, w.application_name
    FROM {schema}.workflow_status w
    WHERE w.status = 'PENDING' AND (w.created_at, w.workflow_uuid) > ($11::bigint, $12::text)
    ORDER BY w.created_at, w.workflow_uuid
    LIMIT $10::bigint
),
executors AS (
    SELECT DISTINCT w.executor_id, substring(w.executor_id FROM '[^/]*$') AS boot_id
    FROM page w
    WHERE w.executor_id LIKE '%/{boot_prefix}%' AND {application_scope:8}
),
orphans AS (
    SELECT e.executor_id, e.boot_id
    FROM executors e
    WHERE e.boot_id LIKE '{boot_prefix}%'
        AND NOT EXISTS (SELECT FROM {own}.leases l WHERE l.boot_id = e.boot_id)
),
suspects AS (
    SELECT boot_id, executor_id, renewals, overdue, lock, false AS orphaned
    FROM others
    WHERE overdue OR lock = 'free'
    UNION ALL
    SELECT boot_id, executor_id, -1, true, 'unknown', true FROM orphans
),
last AS (
    SELECT created_at, workflow_uuid FROM page ORDER BY created_at DESC, workflow_uuid DESC LIMIT 1
)
SELECT
    EXISTS (SELECT FROM renewed) AS is_held,
    clock.ms AS now_ms,
    ARRAY(
        SELECT queues.queue_name
        FROM unnest($3::text[]) AS queues (queue_name)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}.workflow_status w WHERE {claimable:queues} LIMIT 1
        ) first
    ) AS ready,
    {next_sweep_at:8} AS next_at_ms,
    (
        SELECT md5(COALESCE(string_agg(concat(q, s), E'\n' ORDER BY q.name), ''))
        FROM {schema}.queues q
        LEFT JOIN {own}.queue_settings s ON s.queue_name = q.name
        WHERE {registered:8}
    ) AS queues,
    (SELECT count(*) FROM page) AS page_rows,
    (SELECT created_at FROM last) AS last_created_at,
    (SELECT workflow_uuid FROM last) AS last_id,
    suspects.*
FROM clock
LEFT JOIN suspects ON true;

-- name: processes
-- The processes of application $1 whose lease stands and has not run out at the instant $2.
SELECT l.executor_id, l.serves
FROM {own}.leases l
WHERE l.application_name = $1 AND l.taken_at IS NULL AND l.expires_at > $2::bigint
ORDER BY l.executor_id;

-- name: lock_judged_lease
-- The lease of a boot judged dead, locked against its starts and claims and against other takers;
-- nothing if another taker is at it.
SELECT renewals FROM {own}.leases WHERE boot_id = $1 FOR UPDATE SKIP LOCKED;

-- name: lease_stands
-- Whether the boot has a lease row, locked or not.
SELECT FROM {own}.leases WHERE boot_id = $1;

-- name: take_lease
-- Marks a lease taken: its boot can start and claim nothing more, nor renew.
UPDATE {own}.leases SET taken_at = COALESCE(taken_at, {now_ms:2}) WHERE boot_id = $1;

-- name: requeue_runs
-- Gives up to $3 PENDING rows of a dead executor back to their queues, else to $4, the oldest
-- first; rows somebody has locked wait for another time.
WITH clock AS MATERIALIZED (SELECT {now_ms:5} AS ms)
UPDATE {schema}.workflow_status w
SET status = 'ENQUEUED',
    owner_xid = NULL,
    started_at_epoch_ms = NULL,
    queue_name = COALESCE(w.queue_name, $4::text),
    updated_at = (SELECT ms FROM clock)
WHERE w.workflow_uuid = ANY(ARRAY(
    SELECT w.workflow_uuid
    FROM {schema}.workflow_status w
    WHERE w.status = 'PENDING'
        AND w.executor_id = $1
        AND (w.application_name = $2 OR w.application_name IS NULL)
    ORDER BY w.created_at
    LIMIT $3::bigint
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING w.workflow_uuid;

-- name: executor_has_runs
-- A PENDING row that names the executor, of whatever application.
SELECT FROM {schema}.workflow_status WHERE status = 'PENDING' AND executor_id = $1 LIMIT 1;

-- name: delete_lease
-- Forgets a boot.
DELETE FROM {own}.leases WHERE boot_id = $1;

-- name: lock_own_lease
-- The executor of a boot that stops, its lease locked against a start or claim still under way.
SELECT executor_id FROM {own}.leases WHERE boot_id = $1 FOR UPDATE;
