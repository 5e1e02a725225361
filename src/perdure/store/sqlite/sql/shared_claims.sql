-- Claims from queues with limits that the fleet shares, and what uses these limits up. Parameters
-- are named but for those of statements that are executed once for each row.

-- name: pending_of_queue
-- How many workflows of a queue are PENDING.
SELECT count(*) AS pending FROM workflow_status w
WHERE w.queue_name = :queue
    AND w.status = 'PENDING'
    AND w.status IN ('ENQUEUED', 'PENDING')
    AND {application_scope};

-- name: pending_of_partitions
-- The same for each of the partitions with the keys :partitions.
SELECT p.value AS partition_key, (
    SELECT count(*) FROM workflow_status w
    WHERE w.queue_name = :queue
        AND w.status = 'PENDING'
        AND w.status IN ('ENQUEUED', 'PENDING')
        AND w.queue_partition_key = p.value
        AND {application_scope}
) AS pending
FROM json_each(:partitions) p;

-- fragment: claimed_elsewhere
-- A claim since :after that another program made: its time is in the row, and no log has it.
w.queue_name = :queue
    AND w.rate_limited = TRUE
    AND w.started_at_epoch_ms > :after
    AND w.status NOT IN ('ENQUEUED', 'DELAYED')
    AND {application_scope}
    AND NOT EXISTS (
        SELECT 1 FROM perdure_rate_log l
        WHERE l.queue_name = w.queue_name
            AND l.started_at = w.started_at_epoch_ms
            AND l.workflow_id = w.workflow_uuid
    )

-- name: claims_of_queue
-- How many claims from a queue there were after :after, :most at most, and when the first of the
-- last so many was.
SELECT count(*) AS claims, min(started_at) AS first_at
FROM (
    SELECT l.started_at AS started_at FROM perdure_rate_log l
    WHERE l.queue_name = :queue AND l.started_at > :after
    UNION ALL
    SELECT w.started_at_epoch_ms FROM workflow_status w
    WHERE {claimed_elsewhere}
    ORDER BY started_at DESC
    LIMIT :most
);

-- name: claims_of_partitions
-- The same for those of the partitions with the keys :partitions that had any.
SELECT partition_key, count(*) AS claims, min(started_at) AS first_at
FROM (
    SELECT
        partition_key, started_at,
        row_number() OVER (PARTITION BY partition_key ORDER BY started_at DESC) AS place
    FROM (
        SELECT l.partition_key, l.started_at
        FROM json_each(:partitions) p
        CROSS JOIN perdure_rate_log l ON l.partition_key = p.value
        WHERE l.queue_name = :queue AND l.started_at > :after
        UNION ALL
        SELECT w.queue_partition_key, w.started_at_epoch_ms FROM workflow_status w
        WHERE w.queue_partition_key IN (SELECT value FROM json_each(:partitions))
            AND {claimed_elsewhere}
    )
)
WHERE place <= :most
GROUP BY partition_key;

-- name: partition_keys
-- The first keys from :first on, up to :last if there is one, of which rows are ENQUEUED. Each is
-- found in the index behind the one before, however many rows it has.
WITH RECURSIVE found (key) AS (
    SELECT (
        SELECT w.queue_partition_key FROM workflow_status w
        WHERE w.queue_name = :queue
            AND w.status = 'ENQUEUED'
            AND w.status IN ('ENQUEUED', 'PENDING')
            AND w.queue_partition_key >= :first
        ORDER BY w.queue_partition_key
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT w.queue_partition_key FROM workflow_status w
        WHERE w.queue_name = :queue
            AND w.status = 'ENQUEUED'
            AND w.status IN ('ENQUEUED', 'PENDING')
            AND w.queue_partition_key > found.key
        ORDER BY w.queue_partition_key
        LIMIT 1
    )
    FROM found
    WHERE found.key IS NOT NULL AND (:last IS NULL OR found.key < :last)
    LIMIT :limit
)
SELECT key FROM found
WHERE key IS NOT NULL AND (:last IS NULL OR key <= :last);

-- name: partition_firsts
-- Where the first claimable row of each of the partitions with the keys :partitions is.
SELECT
    first.queue_partition_key AS key, first.rowid AS place,
    first.priority, first.created_at, first.workflow_uuid
FROM json_each(:partitions) p
CROSS JOIN workflow_status first ON first.rowid = (
    SELECT w.rowid FROM workflow_status w
    WHERE w.queue_name = :queue AND w.queue_partition_key = p.value AND {claimable}
    ORDER BY w.priority, w.created_at, w.workflow_uuid
    LIMIT 1
);

-- name: partition_candidates
-- Where the claimable rows of one partition after the first :offset are.
SELECT w.rowid AS place, w.priority, w.created_at, w.workflow_uuid
FROM workflow_status w
WHERE w.queue_name = :queue AND w.queue_partition_key = :partition AND {claimable}
ORDER BY w.priority, w.created_at, w.workflow_uuid
LIMIT :limit OFFSET :offset;

-- name: chosen_candidates
-- The rows in these places, as a claim takes them.
SELECT {claimed_columns:w}, w.priority, COALESCE(i.inputs, w.inputs) AS inputs, {has_steps}
FROM json_each(:places) p
CROSS JOIN workflow_status w ON w.rowid = p.value
LEFT JOIN workflow_input i ON i.workflow_uuid = w.workflow_uuid;

-- name: latest_logged_claim
-- The last claim from a queue since :now of one of the workflows with these :ids.
SELECT max(l.started_at) AS started_at FROM perdure_rate_log l
WHERE l.queue_name = :queue
    AND l.started_at >= :now
    AND l.workflow_id IN (SELECT value FROM json_each(:ids));

-- name: log_claim
-- Writes down one claim from a queue with a rate.
INSERT INTO perdure_rate_log (queue_name, started_at, workflow_id, partition_key)
VALUES (?1, ?2, ?3, ?4);

-- name: prune_rate_log
-- Forgets up to :limit claims from a queue that were before :before, the oldest first.
DELETE FROM perdure_rate_log
WHERE queue_name = :queue AND (started_at, workflow_id) IN (
    SELECT l.started_at, l.workflow_id FROM perdure_rate_log l
    WHERE l.queue_name = :queue AND l.started_at < :before
    ORDER BY l.started_at, l.workflow_id
    LIMIT :limit
);
