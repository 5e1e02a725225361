-- Version 3 of our own tables: streams.

-- name: create_stream_log
-- Appends to streams from inside a step, so that an attempt made again appends nothing again.
CREATE TABLE {own}.stream_log (
    workflow_id text NOT NULL,
    append_id text NOT NULL,
    PRIMARY KEY (workflow_id, append_id)
);
