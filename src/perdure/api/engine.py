"""The engine: runs workflows on one database, from `start` to `stop`."""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

from perdure.api.bulk import StartManyCall
from perdure.api.call_options import EnqueueOptions, checked_id
from perdure.api.enqueue import Submission, enqueue, enqueue_many
from perdure.api.handle import Target, WorkflowHandle
from perdure.api.management import Workflows
from perdure.api.messaging import Message, SendCall
from perdure.api.queue import Queue
from perdure.api.queues import Operator, Queues
from perdure.api.running import RUNNING
from perdure.api.versions import Versions
from perdure.api.wiring import build_store
from perdure.api.workflow import Workflow
from perdure.config import EngineConfig, Retention, from_environment
from perdure.engine.context import PLACE
from perdure.engine.journal import PendingCall
from perdure.engine.kernel import Kernel, KernelSettings, Ports
from perdure.engine.queues import QueueDeclaration
from perdure.engine.registry import DECORATED, Registry, WorkflowDefinition
from perdure.engine.system import SystemClock, SystemIds
from perdure.errors import ConfigurationError, NotRunning, RegistrationError, WrongPlace
from perdure.logic.durations import Duration, seconds_of
from perdure.logic.liveness import Rhythm
from perdure.model.ids import ExecutorId
from perdure.model.wire import SEND, SEND_BULK
from perdure.ports.clock import Clock
from perdure.ports.ids import Ids
from perdure.ports.store import Store
from perdure.serialization import Serialization, Serializer

R = TypeVar("R")


class EngineOptions(TypedDict, total=False):
    """Settings of an engine; see `perdure.config.EngineConfig` for what each means.

    `serializers` are formats of your own, by the names that rows bear as their label; see
    `Serializer`.
    """

    name: str
    version: str | None
    executor_id: str | None
    schema: str
    migrate: bool
    unpickle: bool
    max_value_bytes: int
    pool_size: int
    threads: int
    max_running: int
    heartbeat: Duration
    lease: Duration
    stall: Duration
    grace: Duration
    direct_url: str | None
    retention: Retention | None
    serializers: Mapping[str, Serializer]


class Engine:
    """Runs workflows on one database.

    An async context manager: on entry the schema is created or converged (unless `migrate=False`),
    the process takes its lease, and work left by dead processes begins to go on; on exit what only
    waits is released at once, the rest gets `grace` to finish, and is then released too.

    `workflows` are the workflows it runs, by default all that are decorated at module level when
    it starts. `queues` are registered when it starts. It serves every registered queue, also those
    that others register; if `listen` is given, only the queues that it names. `errors` are
    exception classes that come back as themselves. `clock` and `ids` replace time and randomness in
    tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        workflows: Sequence[Workflow[..., Any]] | None = None,
        queues: Sequence[Queue] = (),
        listen: Sequence[Queue | str] | None = None,
        errors: Sequence[type[BaseException]] = (),
        clock: Clock | None = None,
        ids: Ids | None = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        self._serializers = dict(options.pop("serializers", {}))
        given = {"url": url, "listen": _names(listen), **options}
        self._config = from_environment(given, os.environ)
        self._queues = _declared(queues)
        self._errors = tuple(errors)
        self._listed = None if workflows is None else [_definition(each) for each in workflows]
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._lifecycle = asyncio.Lock()
        self._kernel: Kernel | None = None
        self._build_registry()

    @property
    def config(self) -> EngineConfig:
        """The settings in force."""
        return self._config

    @property
    def is_running(self) -> bool:
        """Whether the engine is between `start` and `stop`."""
        return self._kernel is not None

    @property
    def kernel(self) -> Kernel:
        """The running parts; raises `NotRunning`."""
        if self._kernel is None:
            raise NotRunning("this engine is not running; use `async with engine`")
        return self._kernel

    @property
    def executor_id(self) -> ExecutorId | None:
        """Who this process start is in the rows it owns, `<executor_id>/<boot id>`.

        None while it has no lease: for a moment after it was taken for dead.
        """
        return self.kernel.identity.executor_id

    @property
    def workflows(self) -> Workflows:
        """The workflows of the database; raises `NotRunning`."""
        return Workflows(self.kernel.desk, records=True)

    @property
    def queues(self) -> Queues:
        """The queues of the database, to look at and to change; raises `NotRunning`."""
        return Queues(self.kernel.store, self.kernel.retry, self._operator())

    @property
    def versions(self) -> Versions:
        """The registered application versions; raises `NotRunning`."""
        return Versions(self.kernel.store, self.kernel.retry, self._operator())

    def _operator(self) -> Operator:
        settings = self.kernel.settings
        return Operator(settings.application, settings.version, self.kernel.announce_queues)

    def enqueue(
        self,
        name: str,
        *,
        queue: Queue | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        class_name: str = "",
        config_name: str = "",
        **options: Unpack[EnqueueOptions],
    ) -> PendingCall[WorkflowHandle[Any]]:
        """Enqueue a workflow by the name its rows bear, for a process that has its code.

        Awaiting the call gives a handle. The values of arguments and of the result are JSON's
        kinds; `class_name` and `config_name` are for SDKs whose workflows are methods. In a
        workflow it makes a child.

        >>> handle = await engine.enqueue("convert", queue="media", args=("intro",))
        """
        submission = Submission(
            name, args, {} if kwargs is None else kwargs, class_name, config_name
        )
        return enqueue(self, submission, queue, options)

    def enqueue_many(
        self,
        submissions: Iterable[Submission],
        *,
        queue: Queue | str,
        **options: Unpack[EnqueueOptions],
    ) -> StartManyCall[Any]:
        """Enqueue many workflows by name, as `start_many` of a workflow does.

        >>> await engine.enqueue_many([Submission("convert", ("intro",))], queue="media")
        """
        return enqueue_many(self, submissions, queue, options)

    @overload
    def handle(self, workflow_id: str) -> WorkflowHandle[Any]: ...
    @overload
    def handle(self, workflow_id: str, workflow: Workflow[..., R]) -> WorkflowHandle[R]: ...
    def handle(
        self, workflow_id: str, workflow: Workflow[..., Any] | None = None
    ) -> WorkflowHandle[Any]:
        """A handle for an id, whether or not such a workflow exists yet.

        With `workflow` its result is decoded by that function's annotation.
        """
        kernel = self.kernel
        if workflow is None:
            codec = kernel.registry.serialization.value(Any, f"result of {workflow_id!r}")
        else:
            codec = kernel.registry.codecs(kernel.registry.require(workflow.definition)).result
        return WorkflowHandle(Target(kernel.desk, checked_id(workflow_id), codec, must_exist=False))

    def send(
        self,
        destination: str,
        message: Any,
        topic: str | None = None,
        *,
        idempotency_key: str | None = None,
        to_forks: bool = False,
    ) -> SendCall:
        """Send a message to a workflow; see `perdure.send`."""
        sent = [Message(destination, message, topic, idempotency_key)]
        return SendCall(SEND, sent, to_forks=to_forks, speaker=self.kernel.talk)

    def send_bulk(self, messages: Iterable[Message], *, to_forks: bool = False) -> SendCall:
        """Send several messages, all or none."""
        return SendCall(SEND_BULK, messages, to_forks=to_forks, speaker=self.kernel.talk)

    async def start(self) -> None:
        """Open the database and begin to work; does nothing on a running engine.

        A failure leaves nothing open and nothing running, and the engine can be started again.
        """
        async with self._lifecycle:
            if self._kernel is None:
                await self._start()

    async def stop(self) -> None:
        """Stop in order; does nothing on a stopped engine. It can be started again.

        A workflow cannot stop the engine that runs it: that raises `WrongPlace`.
        """
        place = PLACE.get()
        if place is not None and place.run.kernel is self._kernel:
            raise WrongPlace(
                "an engine cannot be stopped from a workflow it runs, which it would wait for; "
                "let the program that started it stop it"
            )
        async with self._lifecycle:
            kernel, self._kernel = self._kernel, None
            if kernel is not None:
                RUNNING.remove(kernel)
                try:
                    await kernel.stop()
                finally:
                    await kernel.store.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _start(self) -> None:
        registry = self._build_registry()
        registry.prepare()
        store = build_store(self._config, self._clock)
        try:
            await self._open(store)
            kernel = Kernel(Ports(store, self._clock, self._ids), registry, self._settings())
            await kernel.start()
        except BaseException:
            await store.close()
            raise
        self._kernel = kernel
        RUNNING.add(kernel)

    async def _open(self, store: Store) -> None:
        if self._config.migrate:
            await store.migrate()
        await store.open()
        if not self._config.migrate:
            await store.check_schema()

    def _build_registry(self) -> Registry:
        config = self._config
        registry = Registry(
            Serialization(
                config.max_value_bytes,
                config.unpickle,
                self._errors,
                DECORATED.error_class,
                self._serializers,
            )
        )
        registry.register(DECORATED.workflows() if self._listed is None else self._listed)
        return registry

    def _settings(self) -> KernelSettings:
        config = self._config
        return KernelSettings(
            application=config.name,
            version=config.version,
            executor_name=config.executor_id,
            rhythm=Rhythm(
                seconds_of(config.heartbeat, "heartbeat"), seconds_of(config.lease, "lease")
            ),
            stall_s=seconds_of(config.stall, "stall"),
            grace_s=seconds_of(config.grace, "grace"),
            threads=config.threads,
            queues=self._queues,
            listen=config.listen,
            max_running=config.max_running,
            retention=config.retention,
        )


def _definition(listed: object) -> WorkflowDefinition:
    if not isinstance(listed, Workflow):
        raise RegistrationError(
            f"workflows=[...] takes functions decorated with @workflow, not {listed!r}"
        )
    return listed.definition


def _declared(queues: Sequence[Queue]) -> tuple[QueueDeclaration, ...]:
    for queue in queues:
        if not isinstance(queue, Queue):
            raise ConfigurationError(f"queues=[...] takes Queue(...), not {queue!r}")
    names = [queue.name for queue in queues]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"queues=[...] declares {name!r} twice; leave one out")
    return tuple(queue.declaration for queue in queues)


def _names(listen: Sequence[Queue | str] | None) -> tuple[str, ...] | None:
    if listen is None:
        return None
    if isinstance(listen, str):
        raise ConfigurationError(f"listen={listen!r}: it must be a list of queues; write [...]")
    return tuple(queue.name if isinstance(queue, Queue) else queue for queue in listen)


def _forget_engines() -> None:
    RUNNING.forget_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_engines)
