-- Values that workflows append under keys.

-- name: append
-- Appends values, $15 the key, $16 the value, $17 its format, of the runs it could fence, each at the
-- next offset of its key. What is written in a body is written with its step, from $3 to $12; what is
-- written inside one has no name and is logged under $18. What stands already is left out. An offset
-- that is taken meanwhile fails the statement. `places` is NULL if all was appended, else the
-- positions of what was, as texts.
WITH asked AS MATERIALIZED (
    SELECT *
    FROM ROWS FROM (
        {texts:3}, {texts:4}, {numbers:5}, {texts:6}, {texts:7}, {texts:8}, {texts:9},
        {numbers:10}, {numbers:11}, {texts:12}, {texts:15}, {texts:16}, {texts:17}, {texts:18}
    ) WITH ORDINALITY AS asked (
        id, owner, step_id, name, output, error, child_id, started_at, completed_at, serialization,
        key, value, label, append_id, place
    )
),
{fenced:asked},
calling AS MATERIALIZED (SELECT * FROM asked WHERE name IS NOT NULL),
recorded AS (
    {insert_steps:calling}
    ON CONFLICT DO NOTHING
    RETURNING workflow_uuid AS id, function_id AS step_id
),
logged AS (
    INSERT INTO {own}.stream_log (workflow_id, append_id)
    SELECT asked.id, asked.append_id
    FROM asked
    JOIN fenced ON fenced.id = asked.id AND fenced.owner = asked.owner
    WHERE asked.name IS NULL
    ON CONFLICT DO NOTHING
    RETURNING workflow_id AS id, append_id
),
appended AS MATERIALIZED (
    SELECT
        asked.id, asked.step_id, asked.key, asked.value, asked.label, asked.place,
        row_number() OVER (PARTITION BY asked.id, asked.key ORDER BY asked.place) AS turn
    FROM asked
    LEFT JOIN recorded ON recorded.id = asked.id AND recorded.step_id = asked.step_id
    LEFT JOIN logged ON logged.id = asked.id AND logged.append_id = asked.append_id
    WHERE CASE WHEN asked.name IS NULL THEN logged.id ELSE recorded.id END IS NOT NULL
),
ends AS MATERIALIZED (
    SELECT line.id, line.key, COALESCE(last.place, -1) AS place
    FROM (SELECT id, key FROM appended GROUP BY id, key) line
    LEFT JOIN LATERAL (
        SELECT s."offset" AS place
        FROM {schema}.streams s
        WHERE s.workflow_uuid = line.id AND s.key = line.key
        ORDER BY s."offset" DESC
        LIMIT 1
    ) last ON true
),
stored AS (
    INSERT INTO {schema}.streams (workflow_uuid, key, value, "offset", function_id, serialization)
    SELECT
        appended.id, appended.key, appended.value, ends.place + appended.turn, appended.step_id,
        appended.label
    FROM appended
    JOIN ends ON ends.id = appended.id AND ends.key = appended.key
)
SELECT CASE WHEN (SELECT count(*) FROM appended) < (SELECT count(*) FROM asked)
    THEN ARRAY(SELECT place::text FROM appended) END AS places;

-- name: logged_appends
-- Of each of the given (id, append id), in their order, whether it is logged.
SELECT log.stands IS NOT NULL AS is_logged
FROM ROWS FROM ({texts:3}, {texts:4}) WITH ORDINALITY AS asked (id, append_id, place)
LEFT JOIN LATERAL (
    SELECT 1 AS stands FROM {own}.stream_log l
    WHERE l.workflow_id = asked.id AND l.append_id = asked.append_id
    LIMIT 1
) log ON true
ORDER BY asked.place;

-- name: stream_pages
-- How each workflow stands and the values of its stream under the key from an offset on, up to a
-- number of them: one row for each reading without values.
SELECT asked.place, w.status, {stream_columns:s}
FROM ROWS FROM ({texts:3}, {texts:4}, {numbers:5}, {numbers:6})
    WITH ORDINALITY AS asked (id, key, first, most, place)
LEFT JOIN LATERAL (
    SELECT run.status FROM {schema}.workflow_status run
    WHERE run.workflow_uuid = asked.id
    LIMIT 1
) w ON true
LEFT JOIN LATERAL (
    SELECT {stream_columns:value} FROM {schema}.streams value
    WHERE value.workflow_uuid = asked.id AND value.key = asked.key AND value."offset" >= asked.first
    ORDER BY value."offset"
    LIMIT asked.most
) s ON true
ORDER BY asked.place, s."offset";
