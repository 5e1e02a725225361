-- The shared tables, indexes and functions as version 123 has them.
-- {schema} is the quoted name of the shared schema.

-- name: create_dbos_migrations
CREATE TABLE IF NOT EXISTS {schema}.dbos_migrations (
    version bigint PRIMARY KEY
);

-- name: create_workflow_status
-- request, output, error and inputs are where payloads were kept before they had tables of their
-- own; they are read as a fall-back and never written.
CREATE TABLE {schema}.workflow_status (
    workflow_uuid text PRIMARY KEY,
    status text,
    name text,
    authenticated_user text,
    assumed_role text,
    authenticated_roles text,
    request text,
    output text,
    error text,
    executor_id text,
    created_at bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    updated_at bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    application_version text,
    application_id text,
    class_name varchar(255) DEFAULT NULL,
    config_name varchar(255) DEFAULT NULL,
    recovery_attempts bigint DEFAULT 0,
    queue_name text,
    workflow_timeout_ms bigint,
    workflow_deadline_epoch_ms bigint,
    inputs text,
    started_at_epoch_ms bigint,
    deduplication_id text,
    priority integer NOT NULL DEFAULT 0,
    queue_partition_key text,
    forked_from text,
    owner_xid text,
    parent_workflow_id text,
    serialization text,
    delay_until_epoch_ms bigint,
    was_forked_from boolean NOT NULL DEFAULT false,
    rate_limited boolean NOT NULL DEFAULT false,
    completed_at bigint,
    attributes jsonb,
    schedule_name text,
    debounce_deadline_epoch_ms bigint,
    is_debounced boolean NOT NULL DEFAULT false,
    application_name text,
    creator_xid text
);

-- name: create_workflow_input
CREATE TABLE {schema}.workflow_input (
    workflow_uuid text PRIMARY KEY,
    inputs text,
    retention_timestamp bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint
);

-- name: create_workflow_output
CREATE TABLE {schema}.workflow_output (
    workflow_uuid text PRIMARY KEY,
    output text,
    error text,
    retention_timestamp bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint
);

-- name: create_operation_outputs
CREATE TABLE {schema}.operation_outputs (
    workflow_uuid text NOT NULL,
    function_id integer NOT NULL,
    function_name text NOT NULL DEFAULT '',
    output text,
    error text,
    child_workflow_id text,
    started_at_epoch_ms bigint,
    completed_at_epoch_ms bigint,
    serialization text,
    application_name text,
    retention_timestamp bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    PRIMARY KEY (workflow_uuid, function_id)
);

-- name: create_notifications
CREATE TABLE {schema}.notifications (
    message_uuid text PRIMARY KEY DEFAULT gen_random_uuid(),
    destination_uuid text NOT NULL
        REFERENCES {schema}.workflow_status (workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE,
    topic text,
    message text NOT NULL,
    created_at_epoch_ms bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    serialization text,
    consumed boolean NOT NULL DEFAULT false,
    consumed_by_function_id integer
);

-- name: create_workflow_events
CREATE TABLE {schema}.workflow_events (
    workflow_uuid text NOT NULL
        REFERENCES {schema}.workflow_status (workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE,
    key text NOT NULL,
    value text NOT NULL,
    serialization text,
    PRIMARY KEY (workflow_uuid, key)
);

-- name: create_workflow_events_history
CREATE TABLE {schema}.workflow_events_history (
    workflow_uuid text NOT NULL
        REFERENCES {schema}.workflow_status (workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE,
    function_id integer NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    serialization text,
    PRIMARY KEY (workflow_uuid, function_id, key)
);

-- name: create_streams
CREATE TABLE {schema}.streams (
    workflow_uuid text NOT NULL
        REFERENCES {schema}.workflow_status (workflow_uuid) ON UPDATE CASCADE ON DELETE CASCADE,
    key text NOT NULL,
    value text NOT NULL,
    "offset" integer NOT NULL,
    function_id integer NOT NULL DEFAULT 0,
    serialization text,
    PRIMARY KEY (workflow_uuid, key, "offset")
);

-- name: create_queues
CREATE TABLE {schema}.queues (
    queue_id text PRIMARY KEY DEFAULT gen_random_uuid()::text,
    name text NOT NULL UNIQUE,
    concurrency integer,
    worker_concurrency integer,
    rate_limit_max integer,
    rate_limit_period_sec double precision,
    priority_enabled boolean NOT NULL DEFAULT false,
    partition_queue boolean NOT NULL DEFAULT false,
    polling_interval_sec double precision NOT NULL DEFAULT 1.0,
    created_at bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    updated_at bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    application_name text,
    partition_concurrency integer,
    partition_worker_concurrency integer,
    partition_rate_limit_max integer,
    partition_rate_limit_period_sec double precision
);

-- name: create_workflow_schedules
CREATE TABLE {schema}.workflow_schedules (
    schedule_id text PRIMARY KEY,
    schedule_name text NOT NULL UNIQUE,
    workflow_name text NOT NULL,
    workflow_class_name text,
    schedule text NOT NULL,
    status text NOT NULL DEFAULT 'ACTIVE',
    context text NOT NULL,
    last_fired_at text,
    automatic_backfill boolean NOT NULL DEFAULT false,
    cron_timezone text,
    queue_name text,
    application_name text
);

-- name: create_application_versions
CREATE TABLE {schema}.application_versions (
    version_id text PRIMARY KEY,
    version_name text NOT NULL UNIQUE,
    version_timestamp bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    created_at bigint NOT NULL DEFAULT (EXTRACT(epoch FROM now()) * 1000.0)::bigint,
    application_name text
);

-- name: create_event_dispatch_kv
-- No program of today reads or writes it; the shared schema still has it.
CREATE TABLE {schema}.event_dispatch_kv (
    service_name text NOT NULL,
    workflow_fn_name text NOT NULL,
    key text NOT NULL,
    value text,
    update_seq numeric(38, 0),
    update_time numeric(38, 15),
    PRIMARY KEY (service_name, workflow_fn_name, key)
);

-- name: index_workflow_status_created_at
CREATE INDEX workflow_status_created_at_index ON {schema}.workflow_status (created_at);

-- name: index_workflow_status_attributes
CREATE INDEX idx_workflow_status_attributes ON {schema}.workflow_status
    USING gin (attributes) WHERE attributes IS NOT NULL;

-- name: index_workflow_status_completed_at
CREATE INDEX idx_workflow_status_completed_at ON {schema}.workflow_status (completed_at)
    WHERE completed_at IS NOT NULL;

-- name: index_workflow_status_deadline
CREATE INDEX idx_workflow_status_deadline ON {schema}.workflow_status (workflow_deadline_epoch_ms)
    WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND workflow_deadline_epoch_ms IS NOT NULL;

-- name: index_workflow_status_delayed
CREATE INDEX idx_workflow_status_delayed ON {schema}.workflow_status (delay_until_epoch_ms)
    WHERE status = 'DELAYED';

-- name: index_workflow_status_failed
CREATE INDEX idx_workflow_status_failed ON {schema}.workflow_status (status, created_at)
    WHERE status IN ('ERROR', 'CANCELLED', 'MAX_RECOVERY_ATTEMPTS_EXCEEDED');

-- name: index_workflow_status_forked_from
CREATE INDEX idx_workflow_status_forked_from ON {schema}.workflow_status (forked_from)
    WHERE forked_from IS NOT NULL;

-- name: index_workflow_status_in_flight
CREATE INDEX idx_workflow_status_in_flight_v2 ON {schema}.workflow_status
    (queue_name, status, priority, created_at) INCLUDE (application_name)
    WHERE status IN ('ENQUEUED', 'PENDING');

-- name: index_workflow_status_parent
CREATE INDEX idx_workflow_status_parent_workflow_id ON {schema}.workflow_status
    (parent_workflow_id) WHERE parent_workflow_id IS NOT NULL;

-- name: index_workflow_status_partition_dequeue
CREATE INDEX idx_workflow_status_partition_dequeue_v3 ON {schema}.workflow_status
    (queue_name, status, queue_partition_key, priority, created_at, workflow_uuid)
    INCLUDE (application_name)
    WHERE status IN ('ENQUEUED', 'PENDING') AND queue_partition_key IS NOT NULL;

-- name: index_workflow_status_pending
CREATE INDEX idx_workflow_status_pending ON {schema}.workflow_status (created_at)
    WHERE status = 'PENDING';

-- name: index_workflow_status_rate_limited
CREATE INDEX idx_workflow_status_rate_limited ON {schema}.workflow_status
    (queue_name, started_at_epoch_ms) WHERE rate_limited = true;

-- name: index_workflow_status_schedule_name
CREATE INDEX idx_workflow_status_schedule_name ON {schema}.workflow_status (schedule_name)
    WHERE schedule_name IS NOT NULL;

-- name: index_workflow_status_started_at
CREATE INDEX idx_workflow_status_started_at ON {schema}.workflow_status (started_at_epoch_ms)
    WHERE started_at_epoch_ms IS NOT NULL;

-- name: unique_workflow_status_dedup_id
CREATE UNIQUE INDEX uq_workflow_status_dedup_id ON {schema}.workflow_status
    (queue_name, deduplication_id) WHERE deduplication_id IS NOT NULL;

-- name: index_workflow_input_retention
CREATE INDEX idx_workflow_input_retention ON {schema}.workflow_input (retention_timestamp);

-- name: index_workflow_output_retention
CREATE INDEX idx_workflow_output_retention ON {schema}.workflow_output (retention_timestamp);

-- name: index_operation_outputs_retention
CREATE INDEX idx_operation_outputs_retention ON {schema}.operation_outputs (retention_timestamp);

-- name: index_operation_outputs_completed_at
CREATE INDEX idx_operation_outputs_completed_at_function_name_v2 ON {schema}.operation_outputs
    (completed_at_epoch_ms, function_name) INCLUDE (application_name);

-- name: index_notifications_topic
CREATE INDEX idx_workflow_topic ON {schema}.notifications (destination_uuid, topic);

-- name: unique_application_versions_owner
CREATE UNIQUE INDEX uq_application_versions_owner_version ON {schema}.application_versions
    (application_name, version_name) WHERE application_name IS NOT NULL;

-- name: unique_application_versions_unclaimed
CREATE UNIQUE INDEX uq_application_versions_unclaimed_version ON {schema}.application_versions
    (version_name) WHERE application_name IS NULL;

-- name: function_enqueue_workflow
-- Enqueues from plain SQL. An id that exists keeps its row, apart from its time of change. The row
-- bears a random owner although nobody runs it: so do those of the other writers of this function.
-- The pinned search path keeps a caller's schema from standing in for a built-in function.
CREATE OR REPLACE FUNCTION {schema}.enqueue_workflow(
    workflow_name text,
    queue_name text,
    positional_args json[] DEFAULT ARRAY[]::json[],
    named_args json DEFAULT '{}'::json,
    class_name text DEFAULT NULL,
    config_name text DEFAULT NULL,
    workflow_id text DEFAULT NULL,
    app_version text DEFAULT NULL,
    timeout_ms bigint DEFAULT NULL,
    deadline_epoch_ms bigint DEFAULT NULL,
    deduplication_id text DEFAULT NULL,
    priority integer DEFAULT NULL,
    queue_partition_key text DEFAULT NULL,
    authenticated_user text DEFAULT NULL,
    authenticated_roles text DEFAULT NULL,
    delay_until_epoch_ms bigint DEFAULT NULL,
    application_name text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS {dollar}
<<call>>
DECLARE
    id text := COALESCE(workflow_id, gen_random_uuid()::text);
BEGIN
    IF COALESCE(workflow_name, '') = '' THEN
        RAISE EXCEPTION 'Workflow name cannot be null or empty';
    ELSIF COALESCE(queue_name, '') = '' THEN
        RAISE EXCEPTION 'Queue name cannot be null or empty';
    ELSIF json_typeof(named_args) <> 'object' THEN
        RAISE EXCEPTION 'Named args must be a JSON object';
    ELSIF workflow_id = '' THEN
        RAISE EXCEPTION 'Workflow ID cannot be an empty string if provided.';
    ELSIF delay_until_epoch_ms < 0 THEN
        RAISE EXCEPTION 'delay_until_epoch_ms must be >= 0';
    END IF;

    INSERT INTO {schema}.workflow_status (
        workflow_uuid, status, name, class_name, config_name, queue_name, application_version,
        application_name, workflow_timeout_ms, workflow_deadline_epoch_ms, delay_until_epoch_ms,
        deduplication_id, priority, queue_partition_key, authenticated_user,
        authenticated_roles, serialization, owner_xid
    ) VALUES (
        call.id,
        CASE WHEN delay_until_epoch_ms IS NULL THEN 'ENQUEUED' ELSE 'DELAYED' END,
        workflow_name, class_name, config_name, queue_name, app_version,
        application_name, timeout_ms, deadline_epoch_ms, delay_until_epoch_ms,
        deduplication_id, COALESCE(priority, 0), queue_partition_key, authenticated_user,
        authenticated_roles, 'portable_json', gen_random_uuid()::text
    )
    ON CONFLICT (workflow_uuid) DO UPDATE
        SET updated_at = (EXTRACT(epoch FROM now()) * 1000.0)::bigint;

    INSERT INTO {schema}.workflow_input (workflow_uuid, inputs)
    VALUES (
        call.id,
        json_build_object('positionalArgs', positional_args, 'namedArgs', named_args)::text
    )
    ON CONFLICT (workflow_uuid) DO NOTHING;

    RETURN call.id;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'DBOS queue duplicated' USING
        ERRCODE = 'unique_violation',
        DETAIL = format(
            'Workflow %s with queue %s and deduplication ID %s already exists',
            call.id, queue_name, deduplication_id
        );
END
{dollar};

-- name: function_send_message
-- Sends from plain SQL. The message id is the idempotency key as it stands.
CREATE OR REPLACE FUNCTION {schema}.send_message(
    destination_id text,
    message json,
    topic text DEFAULT NULL,
    message_id text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS {dollar}
BEGIN
    INSERT INTO {schema}.notifications (
        message_uuid, destination_uuid, topic, message, serialization
    ) VALUES (
        COALESCE(message_id, gen_random_uuid()::text),
        destination_id,
        COALESCE(topic, '__null__topic__'),
        message::text,
        'portable_json'
    )
    ON CONFLICT (message_uuid) DO NOTHING;
EXCEPTION WHEN foreign_key_violation THEN
    RAISE EXCEPTION 'DBOS non-existent workflow' USING
        ERRCODE = 'foreign_key_violation',
        DETAIL = format('Destination workflow %s does not exist', destination_id);
END
{dollar};

-- name: function_notifications
-- Wakes whoever listens for a message. It is a hint: a payload too long for NOTIFY is not sent,
-- rather than refuse the message, which the receiver finds at its next poll.
CREATE OR REPLACE FUNCTION {schema}.notifications_function() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS {dollar}
DECLARE
    payload text := concat(NEW.destination_uuid, '::', COALESCE(NEW.topic, '__null__topic__'));
BEGIN
    IF octet_length(payload) < 8000 THEN
        PERFORM pg_notify('dbos_notifications_channel', payload);
    END IF;
    RETURN NEW;
END
{dollar};

-- name: trigger_notifications
CREATE TRIGGER dbos_notifications_trigger AFTER INSERT ON {schema}.notifications
    FOR EACH ROW EXECUTE FUNCTION {schema}.notifications_function();
