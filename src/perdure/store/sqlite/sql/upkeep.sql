-- Forgetting what our own tables keep for longer than anybody needs it.

-- name: logged_page
-- Up to :limit logged appends behind the one of :workflow_id and :append_id, and whether nobody
-- repeats them: the workflow has an outcome, or there is none.
SELECT
    l.workflow_id,
    l.append_id,
    IFNULL(w.status IN ('SUCCESS', 'ERROR'), true) AS is_over
FROM perdure_stream_log l
LEFT JOIN workflow_status w ON w.workflow_uuid = l.workflow_id
WHERE (l.workflow_id, l.append_id) > (:workflow_id, :append_id)
ORDER BY l.workflow_id, l.append_id
LIMIT :limit;

-- name: forget_append
-- Forgets one.
DELETE FROM perdure_stream_log WHERE workflow_id = ?1 AND append_id = ?2;
