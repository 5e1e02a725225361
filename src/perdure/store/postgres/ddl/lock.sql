-- Keeping other installers out. {key} is a number of ours.

-- name: try_lock
-- One row if the lock is the session's now.
SELECT 1 WHERE pg_catalog.pg_try_advisory_lock({key});

-- name: unlock
SELECT pg_catalog.pg_advisory_unlock({key});

-- name: go_on
-- Another transaction begins at once, so that a pooler keeps the session for us.
COMMIT AND CHAIN;

-- name: start_afresh
-- The same after a statement that failed.
ROLLBACK AND CHAIN;

-- name: stay
-- The transaction is idle while another connection works. Setting takes no snapshot.
SET LOCAL idle_in_transaction_session_timeout = 0;
