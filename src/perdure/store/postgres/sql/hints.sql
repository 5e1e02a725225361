-- Hints to other processes.

-- name: announce
-- Sends the hints $2 on the channel $1, without waiting for the disk: a server that crashes has
-- nobody left to tell.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, hints.hint)
FROM unnest($2::text[]) AS hints (hint);
