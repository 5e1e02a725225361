-- Hints to other processes.

-- name: announce
-- Sends each of the payloads $2 on the channel in its place in $1, without waiting for the disk: a
-- server that crashes has nobody left to tell.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(hints.channel, hints.payload)
FROM unnest($1::text[], $2::text[]) AS hints (channel, payload);
