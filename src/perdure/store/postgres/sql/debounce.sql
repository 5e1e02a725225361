-- Pushing debounced workflows back. $1 is the queue and $2 the deduplication id.

-- name: bounce
-- Moves the delay of the holder, if it is one of function $3 with class $4 and configuration $5,
-- DELAYED, debounced, and of application $6 or of none, or of any if that is none: to $7
-- milliseconds from now, at most to its debounce deadline. Its inputs become $8, their format $9.
-- $10 is the clock's offset, $11 the version that runs it, if that changes, $12 to $14 are whom it
-- runs for.
WITH clock AS MATERIALIZED (SELECT {now_ms:10} AS ms),
bounced AS (
    UPDATE {schema}.workflow_status w
    SET delay_until_epoch_ms = LEAST(
            (SELECT ms FROM clock) + $7::bigint, w.debounce_deadline_epoch_ms
        ),
        serialization = $9::text,
        application_name = COALESCE(w.application_name, $6::text),
        application_version = COALESCE($11::text, w.application_version),
        authenticated_user = $12::text,
        authenticated_roles = $13::text,
        assumed_role = $14::text,
        updated_at = (SELECT ms FROM clock)
    WHERE w.queue_name = $1
        AND w.deduplication_id = $2
        AND w.name = $3
        AND COALESCE(w.class_name, '') = $4::text
        AND COALESCE(w.config_name, '') = $5::text
        AND w.status = 'DELAYED'
        AND w.is_debounced
        AND (w.application_name = $6::text OR w.application_name IS NULL OR $6::text IS NULL)
    RETURNING w.workflow_uuid
),
replaced AS (
    INSERT INTO {schema}.workflow_input (workflow_uuid, inputs, retention_timestamp)
    SELECT workflow_uuid, $8::text, (SELECT ms FROM clock) FROM bounced
    ON CONFLICT (workflow_uuid) DO UPDATE SET inputs = EXCLUDED.inputs
)
SELECT workflow_uuid FROM bounced;

-- name: debounce_holder
-- Who holds the deduplication id, whoever's it is.
SELECT w.workflow_uuid, w.is_debounced, w.name, w.application_name
FROM {schema}.workflow_status w
WHERE w.queue_name = $1 AND w.deduplication_id = $2;
