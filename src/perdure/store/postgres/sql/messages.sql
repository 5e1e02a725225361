-- Messages to workflows.

-- fragment: sendings
-- Callers of items, from $3 to $12, with the item's position $15; and messages, from $16 to $20, with
-- the position $21 and $22 where forks are to get them too. $14 is the clock's offset.
clock AS MATERIALIZED (SELECT {now_ms:14} AS ms),
callers AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}, {numbers:15}
    ) AS callers (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        place
    )
),
messages AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:16}, {texts:17}, {texts:18}, {texts:19}, {texts:20}, {numbers:21}, {numbers:22}
    ) WITH ORDINALITY AS messages (
        id, destination, topic, message, serialization, place, to_forks, number
    )
)

-- fragment: sent
-- Stores the messages in the list {arg} of the items of which every destination exists and the
-- caller, if there is one, is fenced and records its step. $23 is how many items there are. The lock
-- on a destination is the one that its foreign key takes. One that somebody else is deleting is not
-- waited for. Messages are inserted in one order everywhere, so that two statements with the same
-- never wait for each other in a circle. `places` is NULL if all items were written, else the
-- positions of those that were, as texts; without a caller that takes one message that was not there.
destinations AS MATERIALIZED (
    SELECT destination AS id FROM {arg} GROUP BY destination ORDER BY destination COLLATE "C"
),
reached AS MATERIALIZED (
    SELECT locked.id
    FROM destinations
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid AS id
        FROM {schema}.workflow_status w
        WHERE w.workflow_uuid = destinations.id
        FOR KEY SHARE SKIP LOCKED
    ) locked
),
{fenced:callers},
calling AS MATERIALIZED (
    SELECT *
    FROM callers
    WHERE place NOT IN (
        SELECT place FROM {arg} WHERE destination NOT IN (SELECT id FROM reached)
    )
),
recorded AS (
    {insert_steps:calling}
    ON CONFLICT DO NOTHING
    RETURNING workflow_uuid AS id, function_id AS step_id
),
admitted AS MATERIALIZED (
    SELECT items.place, callers.place IS NOT NULL AS has_caller
    FROM generate_series(1, $23::bigint) AS items (place)
    LEFT JOIN callers ON callers.place = items.place
    LEFT JOIN recorded ON recorded.id = callers.id AND recorded.step_id = callers.step_id
    WHERE CASE
        WHEN callers.place IS NOT NULL THEN recorded.id IS NOT NULL
        ELSE items.place NOT IN (
            SELECT place FROM {arg} WHERE destination NOT IN (SELECT id FROM reached)
        )
    END
),
outgoing AS MATERIALIZED (
    SELECT
        {arg}.*,
        row_number() OVER (
            PARTITION BY {arg}.destination, {arg}.topic ORDER BY {arg}.number
        ) AS turn
    FROM {arg}
    JOIN admitted ON admitted.place = {arg}.place
),
-- What a destination receives under a topic is in the order of creation, of which several fit into a
-- millisecond, so that this runs ahead of the clock.
lines AS MATERIALIZED (
    SELECT
        line.destination, line.topic,
        GREATEST((SELECT ms FROM clock), last.created_at + 1) AS created_at
    FROM (SELECT destination, topic FROM outgoing GROUP BY destination, topic) line
    CROSS JOIN LATERAL (
        SELECT max(n.created_at_epoch_ms) AS created_at
        FROM {schema}.notifications n
        WHERE n.destination_uuid = line.destination AND n.topic = line.topic
    ) last
),
stored AS (
    INSERT INTO {schema}.notifications (
        message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms
    )
    SELECT
        outgoing.id, outgoing.destination, outgoing.topic, outgoing.message,
        outgoing.serialization, lines.created_at + outgoing.turn - 1
    FROM outgoing
    JOIN lines ON lines.destination = outgoing.destination AND lines.topic = outgoing.topic
    ORDER BY outgoing.id COLLATE "C"
    ON CONFLICT (message_uuid) DO NOTHING
    RETURNING message_uuid
),
written AS MATERIALIZED (
    SELECT place FROM admitted WHERE has_caller
    UNION
    SELECT outgoing.place FROM outgoing JOIN stored ON stored.message_uuid = outgoing.id
)
SELECT CASE WHEN (SELECT count(*) FROM written) < $23
    THEN ARRAY(SELECT place::text FROM written) END AS places

-- name: send
-- Sends messages to the workflows that they name.
WITH {sendings},
{sent:messages};

-- name: send_alone
-- Sends one message that no step records, as `send` does: a statement without lists takes a fifth of
-- the time. No row if it stands already, or if its destination is locked or missing.
WITH reached AS MATERIALIZED (
    SELECT w.workflow_uuid AS id
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = $2
    FOR KEY SHARE SKIP LOCKED
)
INSERT INTO {schema}.notifications (
    message_uuid, destination_uuid, topic, message, serialization, created_at_epoch_ms
)
SELECT
    $1::text, reached.id, $3::text, $4::text, $5::text,
    GREATEST({now_ms:6}, (
        SELECT max(n.created_at_epoch_ms) + 1
        FROM {schema}.notifications n
        WHERE n.destination_uuid = $2 AND n.topic = $3
    ))
FROM reached
ON CONFLICT (message_uuid) DO NOTHING
RETURNING message_uuid;

-- name: send_to_forks
-- The same, those of them that are to go there also to all that was forked from these workflows. A
-- message's id ends with who gets it, and does so for each.
WITH RECURSIVE {sendings},
family (origin, id) AS (
    SELECT DISTINCT destination, destination FROM messages WHERE to_forks = 1
    UNION
    SELECT family.origin, fork.id
    FROM family
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid AS id
        FROM {schema}.workflow_status w
        WHERE w.forked_from = family.id
        OFFSET 0
    ) fork
),
addressed AS MATERIALIZED (
    SELECT id, destination, topic, message, serialization, place, number FROM messages
    UNION ALL
    SELECT
        CASE WHEN right(messages.id, length(family.origin) + 2) = '::' || family.origin
            THEN left(messages.id, -length(family.origin))
            ELSE messages.id || '::'
        END || family.id,
        family.id, messages.topic, messages.message, messages.serialization, messages.place,
        messages.number
    FROM messages
    JOIN family ON family.origin = messages.destination AND family.id <> family.origin
    WHERE messages.to_forks = 1
),
{sent:addressed};

-- name: standing_messages
-- Of each of the given (message id, destination), in their order, whether they stand.
SELECT message.stands IS NOT NULL AS message_stands, workflow.stands IS NOT NULL AS workflow_stands
FROM ROWS FROM ({texts:3}, {texts:4}) WITH ORDINALITY AS asked (id, destination, place)
LEFT JOIN LATERAL (
    SELECT 1 AS stands FROM {schema}.notifications n WHERE n.message_uuid = asked.id LIMIT 1
) message ON true
LEFT JOIN LATERAL (
    SELECT 1 AS stands FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = asked.destination
    LIMIT 1
) workflow ON true
ORDER BY asked.place;

-- name: receive
-- Takes the oldest message of the topic $15 for each of the steps, from $3 to $12, that can be
-- recorded, and records it as the step's output together with the time limits, from $16 to $25, each
-- with the position $26 of its step. A message that somebody is taking is passed over. A row for each
-- step that was recorded, with the message, and for each that found none. The messages are locked, so
-- the insertion always meets them; it stands for an update, as where runs end.
WITH asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}, {texts:15}
    ) WITH ORDINALITY AS asked (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        topic, place
    )
),
deadlines AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:16}, {texts:17}, {numbers:18}, {texts:19}, {texts:20}, {texts:21}, {texts:22},
        {numbers:23}, {numbers:24}, {texts:25}, {numbers:26}
    ) AS deadlines (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        place
    )
),
{fenced:asked},
receivers AS MATERIALIZED (
    SELECT
        asked.*,
        row_number() OVER (PARTITION BY asked.id, asked.topic ORDER BY asked.place) AS turn
    FROM asked
    JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner
    WHERE (
        SELECT 1 FROM {schema}.operation_outputs taken
        WHERE taken.workflow_uuid = asked.id AND taken.function_id = asked.step_id
    ) IS NULL
),
found AS MATERIALIZED (
    SELECT
        line.id, line.topic, message.*,
        row_number() OVER (
            PARTITION BY line.id, line.topic
            ORDER BY message.created_at, message.message_id COLLATE "C"
        ) AS turn
    FROM (SELECT id, topic, count(*) AS receivers FROM receivers GROUP BY id, topic) line
    CROSS JOIN LATERAL (
        SELECT
            n.message_uuid AS message_id, n.message, n.serialization AS label,
            n.created_at_epoch_ms AS created_at
        FROM {schema}.notifications n
        WHERE n.destination_uuid = line.id AND n.topic = line.topic AND NOT n.consumed
        ORDER BY n.created_at_epoch_ms, n.message_uuid COLLATE "C"
        LIMIT line.receivers
        FOR NO KEY UPDATE SKIP LOCKED
    ) message
),
taking AS MATERIALIZED (
    SELECT
        receivers.id, receivers.owner, receivers.step_id, receivers.name, found.message AS output,
        receivers.error, receivers.child_id, receivers.started_at, receivers.completed_at,
        found.label AS serialization, receivers.place, found.message_id
    FROM receivers
    JOIN found
        ON found.id = receivers.id AND found.topic = receivers.topic AND found.turn = receivers.turn
),
recorded AS (
    {insert_steps:taking}
    ON CONFLICT DO NOTHING
    RETURNING workflow_uuid AS id, function_id AS step_id
),
received AS MATERIALIZED (
    SELECT taking.*
    FROM taking
    JOIN recorded ON recorded.id = taking.id AND recorded.step_id = taking.step_id
),
consumed AS (
    INSERT INTO {schema}.notifications (
        message_uuid, destination_uuid, message, consumed, consumed_by_function_id
    )
    SELECT message_id, id, output, true, step_id FROM received
    ON CONFLICT (message_uuid) DO UPDATE
    SET consumed = true, consumed_by_function_id = EXCLUDED.consumed_by_function_id
),
limits AS MATERIALIZED (
    SELECT deadlines.* FROM deadlines JOIN received ON received.place = deadlines.place
),
limited AS ({insert_steps:limits} ON CONFLICT DO NOTHING)
SELECT
    receivers.place, received.place IS NOT NULL AS was_received, received.output,
    received.serialization
FROM receivers
LEFT JOIN taking ON taking.place = receivers.place
LEFT JOIN received ON received.place = receivers.place
WHERE received.place IS NOT NULL OR taking.place IS NULL;

-- name: receive_alone
-- The same for one step without a time limit, in a fifth of the time. No row if it cannot be recorded.
WITH fenced AS MATERIALIZED (
    SELECT w.workflow_uuid AS id
    FROM {schema}.workflow_status w
    WHERE w.workflow_uuid = $1
        AND w.owner_xid = $2
        AND w.status IS NOT DISTINCT FROM 'PENDING'
        AND (
            SELECT 1 FROM {schema}.operation_outputs taken
            WHERE taken.workflow_uuid = $1 AND taken.function_id = $3
        ) IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
),
taking AS MATERIALIZED (
    SELECT message.*
    FROM fenced
    CROSS JOIN LATERAL (
        SELECT n.message_uuid AS id, n.message AS output, n.serialization
        FROM {schema}.notifications n
        WHERE n.destination_uuid = fenced.id AND n.topic = $7 AND NOT n.consumed
        ORDER BY n.created_at_epoch_ms, n.message_uuid COLLATE "C"
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) message
),
received AS (
    INSERT INTO {schema}.operation_outputs (
        workflow_uuid, function_id, function_name, output, started_at_epoch_ms,
        completed_at_epoch_ms, serialization, application_name, retention_timestamp
    )
    SELECT
        $1, $3, $4::text, taking.output, $5::bigint, $6::bigint, taking.serialization, $8::text,
        (SELECT {now_ms:9})
    FROM taking
    ON CONFLICT DO NOTHING
    RETURNING output, serialization
),
consumed AS (
    UPDATE {schema}.notifications
    SET consumed = true, consumed_by_function_id = $3
    WHERE message_uuid = (SELECT taking.id FROM taking WHERE EXISTS (SELECT FROM received))
)
SELECT
    1 AS place, EXISTS (SELECT FROM received) AS was_received,
    (SELECT output FROM received) AS output, (SELECT serialization FROM received) AS serialization
FROM fenced
WHERE EXISTS (SELECT FROM received) OR NOT EXISTS (SELECT FROM taking);

-- name: topics_with_messages
-- The positions of those of the given (destination, topic) that have a message.
SELECT asked.place
FROM ROWS FROM ({texts:3}, {texts:4}) WITH ORDINALITY AS asked (destination, topic, place)
CROSS JOIN LATERAL (
    SELECT FROM {schema}.notifications n
    WHERE n.destination_uuid = asked.destination AND n.topic = asked.topic AND NOT n.consumed
    LIMIT 1
) message
ORDER BY asked.place;
