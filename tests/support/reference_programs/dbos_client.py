"""Run by an interpreter that has the real dbos: a client that does what it is told.

Each line of its input is a JSON list [url, method, arguments, keywords]; each line of its output
is {"value": …} or {"error": [class name, message]}. It ends with its input.
"""

import json
import sys
from typing import Any

from dbos import DBOSClient, DebouncerClient, WorkflowSerializationFormat


def shown(value: Any) -> Any:
    """A value as JSON has it: objects by their fields, errors as class and fields."""
    if isinstance(value, BaseException):
        return {"error": type(value).__name__, "message": str(value), **shown(vars(value))}
    if isinstance(value, dict):
        return {str(key): shown(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return shown({name: part for name, part in vars(value).items() if name[0] != "_"})


class Reversed:
    """A format of one's own: JSON, back to front."""

    def name(self) -> str:
        return "reversed"

    def serialize(self, data: Any) -> str:
        return json.dumps(data)[::-1]

    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data[::-1])


class Told:
    """The clients, one for each database and format, and what they are asked for."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, bool], DBOSClient] = {}

    def _client(self, url: str, own: bool) -> DBOSClient:
        if (url, own) not in self._clients:
            self._clients[url, own] = DBOSClient(
                system_database_url=url,
                system_database_pool_size=2,
                application_name="app",
                **({"serializer": Reversed()} if own else {}),
            )
        return self._clients[url, own]

    def _close(self, url: str) -> None:
        for own in (False, True):
            if (url, own) in self._clients:
                self._clients.pop((url, own)).destroy()

    def answer(self, url: str, method: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        if method == "close":
            return self._close(url)
        own = keywords.pop("own", False)
        client = self._client(url, own)
        if method == "result":
            return client.retrieve_workflow(*args).get_result(polling_interval_sec=0.05)
        if method == "enqueue":
            portable = {"serialization_type": WorkflowSerializationFormat.PORTABLE}
            options = {**keywords, **({} if own else portable)}
            return client.enqueue(options, *args).workflow_id
        if method == "debounce":
            name, queue, timeout_s, *rest = args
            options = {
                "workflow_name": name,
                "queue_name": queue,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            }
            debouncer = DebouncerClient(client, options, debounce_timeout_sec=timeout_s)
            return debouncer.debounce(*rest).workflow_id
        if method == "send":
            is_portable = keywords.pop("portable", True)
            kind = WorkflowSerializationFormat
            keywords["serialization_type"] = kind.PORTABLE if is_portable else kind.DEFAULT
        if method == "read_stream":
            return list(client.read_stream(*args, **keywords))
        value = getattr(client, method)(*args, **keywords)
        return getattr(value, "workflow_id", value) if method != "list_workflows" else value


told = Told()
for line in sys.stdin:
    try:
        answer = {"value": shown(told.answer(*json.loads(line)))}
    except Exception as error:  # noqa: BLE001 - whoever asked wants to see it
        answer = {"error": [type(error).__name__, str(error), shown(vars(error))]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
