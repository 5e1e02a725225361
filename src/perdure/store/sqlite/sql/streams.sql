-- Values that workflows append under keys. Parameters of what is executed once for each item of a
-- batch are numbered; the others are named.

-- name: append
-- Appends a value at the next offset of its key.
INSERT INTO streams (workflow_uuid, key, value, "offset", function_id, serialization)
VALUES (
    ?1, ?2, ?3,
    (SELECT IFNULL(max(s."offset"), -1) + 1 FROM streams s WHERE s.workflow_uuid = ?1 AND s.key = ?2),
    ?4, ?5
);

-- name: logged_appends
-- Whether an append from inside a step is logged.
SELECT 1 FROM perdure_stream_log WHERE workflow_id = ?1 AND append_id = ?2;

-- name: log_append
-- Logs one.
INSERT INTO perdure_stream_log (workflow_id, append_id) VALUES (?1, ?2);

-- name: stream_pages
-- The values of a stream from an offset on, up to a number of them.
SELECT {stream_columns:s} FROM streams s
WHERE s.workflow_uuid = :id AND s.key = :key AND s."offset" >= :first
ORDER BY s."offset"
LIMIT :most;

-- name: workflow_state
-- How a workflow stands.
SELECT status FROM workflow_status WHERE workflow_uuid = :id;
