-- Keeping other installers out. Run by the simple protocol: a portal of the extended one would keep
-- its snapshot until the transaction ends. {key} is a number of ours.

-- name: try_lock
-- One row if the lock is ours now.
SELECT 1 WHERE pg_catalog.pg_try_advisory_xact_lock({key});

-- name: stay
-- The transaction that holds the lock is idle while another connection works.
SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true);
