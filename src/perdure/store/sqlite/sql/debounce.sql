-- Pushing debounced workflows back. All parameters are named.

-- name: debounce_holder
-- Who holds a deduplication id on a queue, whoever's it is.
SELECT w.workflow_uuid, w.is_debounced, w.name, w.application_name
FROM workflow_status w
WHERE w.queue_name = :queue AND w.deduplication_id = :deduplication;

-- name: bounce
-- Moves the delay of the holder to :until, at most to its debounce deadline, if it is one of that
-- function, DELAYED, debounced, and of the application or of none, or of any if that is none.
UPDATE workflow_status
SET delay_until_epoch_ms = min(:until, COALESCE(debounce_deadline_epoch_ms, :until)),
    serialization = :serialization,
    application_name = COALESCE(application_name, :application),
    application_version = COALESCE(:version, application_version),
    authenticated_user = :user,
    authenticated_roles = :roles,
    assumed_role = :role,
    updated_at = :now
WHERE queue_name = :queue
    AND deduplication_id = :deduplication
    AND name = :name
    AND COALESCE(class_name, '') = :class_name
    AND COALESCE(config_name, '') = :config_name
    AND status = 'DELAYED'
    AND is_debounced
    AND (
        application_name = :application OR application_name IS NULL OR :application IS NULL
    );

-- name: replace_inputs
-- Stores other inputs of a workflow; the time of what stands there is kept.
INSERT INTO workflow_input (workflow_uuid, inputs, retention_timestamp)
VALUES (:id, :inputs, :now)
ON CONFLICT (workflow_uuid) DO UPDATE SET inputs = excluded.inputs;
