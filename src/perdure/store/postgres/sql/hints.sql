-- Hints to other processes.

-- name: announce
-- Sends the hints $2 on the channel $1.
SELECT pg_notify($1, hints.hint) FROM unnest($2::text[]) AS hints (hint);
