"""Every string and number shared with the other SDKs on the system database."""

SCHEMA_VERSION = 125
DEFAULT_SCHEMA = "dbos"

INTERNAL_QUEUE = "_perdure_internal_queue"
"""Where a recovered run without a queue of its own waits for its next claim."""

FOREIGN_INTERNAL_QUEUE = "_dbos_internal_queue"
"""The other SDKs' internal queue: served, never written."""

INTERNAL_QUEUES = (INTERNAL_QUEUE, FOREIGN_INTERNAL_QUEUE)

RESERVED_PREFIXES = ("_dbos_", "_perdure_")
"""What names of queues may not begin with."""

PORTABLE_JSON = "portable_json"
PY_PICKLE = "py_pickle"

SLEEP = "DBOS.sleep"
GET_RESULT = "DBOS.getResult"
GET_STATUS = "DBOS.getStatus"
LIST_WORKFLOWS = "DBOS.listWorkflows"
LIST_STEPS = "DBOS.listWorkflowSteps"
EXPORT_WORKFLOWS = "Perdure.exportWorkflows"
IMPORT_WORKFLOWS = "Perdure.importWorkflows"
COUNT_WORKFLOWS = "Perdure.countWorkflows"
COUNT_STEPS = "Perdure.countSteps"
LIST_TREE = "Perdure.listTree"
LIST_ANCESTORS = "Perdure.listAncestors"
LIST_MESSAGES = "Perdure.listMessages"
LIST_STREAMS = "Perdure.listStreams"
SEND = "DBOS.send"
SEND_BULK = "DBOS.send_bulk"
RECV = "DBOS.recv"
SET_EVENT = "DBOS.setEvent"
GET_EVENT = "DBOS.getEvent"
GET_EVENTS = "DBOS.get_events"
WRITE_STREAM = "DBOS.writeStream"
CLOSE_STREAM = "DBOS.closeStream"
READ_STREAM = "DBOS.readStream"
WAIT_FIRST = "DBOS.waitFirst"
NOW = "Perdure.now"
UUID4 = "Perdure.uuid4"
RANDOM = "Perdure.random"
CANCEL_WORKFLOW = "DBOS.cancelWorkflow"
RESUME_WORKFLOW = "DBOS.resumeWorkflow"
FORK_WORKFLOW = "DBOS.forkWorkflow"
REWIND_WORKFLOW = "DBOS.rewindWorkflow"
DELETE_WORKFLOW = "DBOS.deleteWorkflow"
SET_WORKFLOW_DELAY = "DBOS.setWorkflowDelay"
UPDATE_ATTRIBUTES = "DBOS.updateWorkflowAttributes"
DEBOUNCE = "DBOS.debounce_delayed_workflow"
PATCH_PREFIX = "DBOS.patch-"

NULL_TOPIC = "__null__topic__"
STREAM_CLOSED = '"__DBOS_STREAM_CLOSED__"'
"""The text of a stream's last row, JSON quotes included."""

PICKLED_STREAM_CLOSED = (
    "gASVGgAAAAAAAACMFl9fREJPU19TVFJFQU1fQ0xPU0VEX1+ULg==",
    "gAWVGgAAAAAAAACMFl9fREJPU19TVFJFQU1fQ0xPU0VEX1+ULg==",
)
"""How the Python SDK records that a stream it read was closed, by the protocols of its pickles."""

PICKLED_NONE = ("gAROLg==", "gAVOLg==")
"""How it records that nothing came in time."""

NOTIFICATIONS_CHANNEL = "dbos_notifications_channel"
EVENTS_CHANNEL = "dbos_workflow_events_channel"
STREAMS_CHANNEL = "dbos_streams_channel"

DATABASE_URL_ENV = "DBOS_SYSTEM_DATABASE_URL"
APP_VERSION_ENV = "DBOS__APPVERSION"
APP_ID_ENV = "DBOS__APPID"
EXECUTOR_ID_ENV = "DBOS__VMID"
