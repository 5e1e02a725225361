-- Version 3 of our own tables: streams.

-- name: create_stream_log
-- Appends to streams from inside a step, so that an attempt made again appends nothing again.
CREATE TABLE perdure_stream_log (
    workflow_id TEXT NOT NULL,
    append_id TEXT NOT NULL,
    PRIMARY KEY (workflow_id, append_id)
) WITHOUT ROWID;
