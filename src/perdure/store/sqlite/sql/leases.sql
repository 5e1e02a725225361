-- Leases of process starts, and what a heartbeat looks at. All parameters are named.

-- name: held_lease
-- Whether the lease of an executor stands and was not taken.
SELECT 1 FROM perdure_leases
WHERE boot_id = :boot AND executor_id = :executor AND taken_at IS NULL;

-- name: open_lease
-- Inserts a lease or refreshes the boot's own; changes no row if it was taken, or if it is gone and
-- :known says that it stood before.
INSERT INTO perdure_leases (
    boot_id, executor_id, application_name, renewals, renewed_at, expires_at, period_ms,
    lock_path, created_at, serves
)
SELECT :boot, :executor, :application, 0, :now, :now + :period, :period, :lock, :now, :serves
WHERE NOT :known OR EXISTS (SELECT 1 FROM perdure_leases WHERE boot_id = :boot)
ON CONFLICT (boot_id) DO UPDATE
SET renewals = renewals + 1,
    renewed_at = excluded.renewed_at,
    expires_at = excluded.expires_at,
    period_ms = excluded.period_ms,
    lock_path = excluded.lock_path,
    serves = excluded.serves
WHERE taken_at IS NULL;

-- name: renew_lease
-- Renews a lease that stands and was not taken.
UPDATE perdure_leases
SET renewals = renewals + 1, renewed_at = :now, expires_at = :now + :period, lock_path = :lock
WHERE boot_id = :boot AND taken_at IS NULL;

-- name: leases
-- Every lease of this application.
SELECT boot_id, executor_id, renewals, expires_at, taken_at, lock_path
FROM perdure_leases
WHERE application_name = :application;

-- name: recorded_locks
-- The lock files that leases name, of whatever application.
SELECT lock_path FROM perdure_leases WHERE lock_path IS NOT NULL;

-- name: orphaned_executors
-- Executors of PENDING rows that look like ours and have no lease.
SELECT DISTINCT w.executor_id FROM workflow_status w
WHERE w.status = 'PENDING'
    AND w.executor_id GLOB '*/' || :prefix || '*'
    AND {application_scope}
    AND w.executor_id NOT IN (SELECT l.executor_id FROM perdure_leases l);

-- name: ready_queues
-- Which of the queues hold something claimable.
SELECT q.value AS queue_name FROM json_each(:queues) q
WHERE EXISTS (
    SELECT 1 FROM workflow_status w WHERE w.queue_name = q.value AND {claimable}
);

-- name: processes
-- The processes of an application whose lease stands and has not run out.
SELECT executor_id, serves FROM perdure_leases
WHERE application_name = :application AND taken_at IS NULL AND expires_at > :now
ORDER BY executor_id;

-- name: judged_lease
-- The lease a judgement is about.
SELECT executor_id, renewals, lock_path FROM perdure_leases WHERE boot_id = :boot;

-- name: take_lease
-- Marks a lease taken: its boot can start and claim nothing more.
UPDATE perdure_leases SET taken_at = :now WHERE boot_id = :boot AND taken_at IS NULL;

-- name: requeue_runs
-- Gives up to :limit PENDING rows of a dead executor back to their queues, the oldest first.
UPDATE workflow_status
SET status = 'ENQUEUED',
    owner_xid = NULL,
    started_at_epoch_ms = NULL,
    queue_name = COALESCE(queue_name, :internal),
    updated_at = :now
WHERE rowid IN (
    SELECT w.rowid FROM workflow_status w
    WHERE w.status = 'PENDING' AND w.executor_id = :executor AND {application_scope}
    ORDER BY w.created_at
    LIMIT :limit
);

-- name: executor_has_runs
-- Whether a PENDING row still names the executor, of whatever application.
SELECT 1 FROM workflow_status WHERE status = 'PENDING' AND executor_id = :executor LIMIT 1;

-- name: delete_lease
-- Forgets a boot whose rows have all been taken.
DELETE FROM perdure_leases WHERE boot_id = :boot;
