"""Run by an interpreter that has the real dbos: an application that runs until it is killed.

dbos_application.py URL SETTINGS ID...

SETTINGS is a JSON object: `name`, `version` and `executor` of the application, `portable`, and
`stands`: whether each workflow stays in its step of that name. It starts a workflow of each id, a
`journey` unless `workflow` names another. Where `patching` is on it can be one that is patched.
"""

import json
import sys
import threading

from dbos import DBOS, SetWorkflowID, WorkflowSerializationFormat

url, settings, *ids = sys.argv[1:]
told = json.loads(settings)
PORTABLE = WorkflowSerializationFormat.PORTABLE if told["portable"] else None


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


@DBOS.step(name="first")
def first(word: str) -> str:
    return word.upper()


@DBOS.step(name="fails")
def fails(word: str) -> None:
    raise LookupError(f"no {word}")


@DBOS.step(name="stand")
def stand(word: str) -> str:
    say("stands", word)
    if told["stands"]:
        threading.Event().wait()
    return f"{word} stood"


@DBOS.workflow(name="leg", serialization_type=PORTABLE)
def leg(word: str) -> dict:
    return {"leg": first(f"{word} leg")}


@DBOS.workflow(name="journey", serialization_type=PORTABLE)
def journey(word: str) -> list:
    begun = first(word)
    try:
        fails(word)
    except LookupError as error:
        begun = f"{begun} {error.args[0]}"
    DBOS.sleep(0.01)
    return [begun, leg(word), stand(word), first("end")]


@DBOS.workflow(name="detour", serialization_type=PORTABLE)
def detour(word: str) -> list:
    begun = first(word)
    way = first("new") if told.get("patching") and DBOS.patch("way") else first("old")
    return [begun, way, stand(word)]


DBOS(
    config={
        "name": told["name"],
        "application_version": told["version"],
        "executor_id": told["executor"],
        "system_database_url": url,
        "run_admin_server": False,
        "enable_patching": told.get("patching", False),
        "use_listen_notify": not url.startswith("sqlite"),
    }
)
CALLED = {"journey": journey, "detour": detour}
DBOS.launch()
say("launched")
handles = []
for each in ids:
    with SetWorkflowID(each):
        handles.append(DBOS.start_workflow(CALLED[told.get("workflow", "journey")], each))
for handle in handles:
    say("result", handle.workflow_id, json.dumps(handle.get_result()))
threading.Event().wait()
