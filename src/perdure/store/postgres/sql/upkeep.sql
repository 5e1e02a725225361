-- Forgetting what our own tables keep for longer than anybody needs it.

-- name: logged_page
-- Up to $3 logged appends behind the one of workflow $1 and append id $2, and whether nobody repeats
-- them: the workflow has an outcome, or there is none.
SELECT
    page.workflow_id,
    page.append_id,
    COALESCE(w.status IN ('SUCCESS', 'ERROR'), true) AS is_over
FROM (
    SELECT l.workflow_id, l.append_id
    FROM {own}.stream_log l
    WHERE (l.workflow_id, l.append_id) > ($1::text, $2::text)
    ORDER BY l.workflow_id, l.append_id
    LIMIT $3::bigint
) page
LEFT JOIN {schema}.workflow_status w ON w.workflow_uuid = page.workflow_id
ORDER BY page.workflow_id, page.append_id;

-- name: forget_append
-- Forgets appends by their workflows $1 and append ids $2.
DELETE FROM {own}.stream_log l
USING unnest($1::text[], $2::text[]) AS over (workflow_id, append_id)
WHERE l.workflow_id = over.workflow_id AND l.append_id = over.append_id;
