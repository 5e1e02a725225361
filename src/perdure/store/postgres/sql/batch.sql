-- How a batch of rows comes in, and the fence around everything written for a run.
--
-- Plans of hot statements are made once and kept while tables grow from nothing. Here and in the
-- other files LATERAL with a lock or a LIMIT leaves only one: each row looked up by its key.

-- fragment: list
-- The values of one column that came in as one text, with $1 between them and $2 in place of each
-- NULL. An array as such costs asyncpg ten times as long to encode, a microsecond a value. One
-- empty value alone comes as an empty text, which would be split into no value at all.
CASE ${arg}::text WHEN '' THEN ARRAY[''] ELSE string_to_array(${arg}::text, $1::text, $2::text) END

-- fragment: texts
-- The same as rows.
unnest({list:{arg}})

-- fragment: numbers
-- Whole numbers as rows; they come in as the text of an array.
unnest(${arg}::text::bigint[])

-- fragment: now_ms
-- The database's clock in milliseconds, plus the offset given as that parameter. Not now(), which
-- stands still from the beginning of the transaction.
((extract(epoch FROM clock_timestamp()) * 1000)::bigint + ${arg}::bigint)

-- fragment: later
-- So many milliseconds after the statement's clock, at most the last instant there is.
LEAST((SELECT ms FROM clock) + {arg}::numeric, 9223372036854775807)::bigint

-- fragment: fenced
-- Locks the rows of the runs that the named list wants to write for and that are still theirs: each
-- once, in the order of ids, without waiting for anybody. A row changed after the statement began
-- is judged by what it is now. A takeover, a cancel and a resume update the row, so they exclude
-- the rest of the statement. The status is compared in a way no partial index knows: walking all
-- PENDING rows must not look cheap while there are few.
runs AS MATERIALIZED (
    SELECT id, owner FROM {arg} GROUP BY id, owner ORDER BY id COLLATE "C"
),
fenced AS MATERIALIZED (
    SELECT locked.id, locked.owner
    FROM runs
    CROSS JOIN LATERAL (
        SELECT w.workflow_uuid AS id, w.owner_xid AS owner
        FROM {schema}.workflow_status w
        WHERE w.workflow_uuid = runs.id
            AND w.owner_xid = runs.owner
            AND w.status IS NOT DISTINCT FROM 'PENDING'
        FOR NO KEY UPDATE SKIP LOCKED
    ) locked
)

-- fragment: unfenced
-- NULL if all runs were fenced, else the (id, owner) of those that were.
CASE WHEN (SELECT count(*) FROM fenced) < (SELECT count(*) FROM runs)
    THEN ARRAY(SELECT ARRAY[id, owner] FROM fenced) END
