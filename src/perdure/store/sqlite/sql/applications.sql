-- Giving what one application owns to another. All parameters are named: :unclaimed says whether
-- what is nobody's moves too.

-- fragment: renamed
-- Rows that move.
(application_name = :old OR (:unclaimed AND application_name IS NULL))

-- name: living_executors
-- The processes of an application whose lease has not run out.
SELECT executor_id FROM perdure_leases
WHERE application_name = :old AND taken_at IS NULL AND expires_at > :now
ORDER BY executor_id;

-- name: rename_queues
-- Moves queues.
UPDATE queues SET application_name = :new WHERE {renamed};

-- name: rename_schedules
-- Moves schedules.
UPDATE workflow_schedules SET application_name = :new WHERE {renamed};

-- name: rename_versions
-- Moves versions.
UPDATE application_versions SET application_name = :new WHERE {renamed};

-- name: rename_leases
-- Moves the leases of processes that are gone.
UPDATE perdure_leases SET application_name = :new WHERE application_name = :old;

-- name: rename_in_flight
-- Moves workflows that have not ended.
UPDATE workflow_status SET application_name = :new
WHERE status IN ('ENQUEUED', 'PENDING', 'DELAYED') AND {renamed};

-- name: workflows_from
-- The workflow that is the :limit-th from :since on.
SELECT workflow_uuid FROM workflow_status
WHERE workflow_uuid >= :since
ORDER BY workflow_uuid
LIMIT 1 OFFSET :limit - 1;

-- name: steps_from
-- The same of workflows that have steps.
SELECT DISTINCT workflow_uuid FROM operation_outputs
WHERE workflow_uuid >= :since
ORDER BY workflow_uuid
LIMIT 1 OFFSET :limit - 1;

-- name: rename_workflows
-- Moves those from :since to :last, or to the end if that is NULL.
UPDATE workflow_status SET application_name = :new
WHERE workflow_uuid >= :since AND workflow_uuid <= COALESCE(:last, x'') AND {renamed};

-- name: rename_steps
-- The same of their steps.
UPDATE operation_outputs SET application_name = :new
WHERE workflow_uuid >= :since AND workflow_uuid <= COALESCE(:last, x'') AND {renamed};
