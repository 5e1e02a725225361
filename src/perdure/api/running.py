"""Which engines run in this process, and which of them a call belongs to."""

import asyncio
import threading

from perdure.engine.context import PLACE
from perdure.engine.kernel import Kernel
from perdure.engine.registry import WorkflowDefinition
from perdure.engine.talk import Speaker
from perdure.errors import AmbiguousEngine, NotRunning, WrongPlace


class RunningEngines:
    """The running kernels of this process, behind a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: list[Kernel] = []

    def add(self, kernel: Kernel) -> None:
        """A kernel began to run."""
        with self._lock:
            self._kernels.append(kernel)

    def remove(self, kernel: Kernel) -> None:
        """A kernel stopped."""
        with self._lock:
            if kernel in self._kernels:
                self._kernels.remove(kernel)

    def forget_all(self) -> None:
        """After a fork: none of them runs in this process."""
        self._lock = threading.Lock()
        self._kernels.clear()

    def only_one_for(self, definition: WorkflowDefinition) -> Kernel:
        """The only running engine that registered the workflow; raises if none or several did."""
        with self._lock:
            # Whoever ended a loop without stopping its engine left a kernel that runs nothing.
            kernels = [kernel for kernel in self._kernels if not kernel.loop.is_closed()]
            self._kernels[:] = kernels
        found = [kernel for kernel in kernels if kernel.registry.find(definition.key) is not None]
        if len(found) > 1:
            raise AmbiguousEngine(
                f"{len(found)} running engines registered {str(definition.key)!r}; say which one "
                "with .options(engine=...)"
            )
        if not found:
            raise NotRunning(
                f"cannot start {str(definition.key)!r}: "
                + (
                    "no running engine registered it; pass it in Engine(workflows=[...])"
                    if kernels
                    else "no engine is running; use `async with Engine(...)`. The undecorated "
                    "function is its .fn"
                )
            )
        return found[0]

    def only_one(self, what: str) -> Kernel:
        """The only running engine; raises if there is none or there are several."""
        with self._lock:
            kernels = [kernel for kernel in self._kernels if not kernel.loop.is_closed()]
        if len(kernels) > 1:
            raise AmbiguousEngine(
                f"{len(kernels)} engines are running, and {what} names none of them; use "
                "engine.handle(...) of the one that is meant"
            )
        if not kernels:
            raise NotRunning(f"{what} needs a running engine; use `async with Engine(...)`")
        return kernels[0]


RUNNING = RunningEngines()


def kernel_for(definition: WorkflowDefinition, chosen: Kernel | None) -> Kernel:
    """The kernel a call of this workflow goes to: its run's, the chosen one, or the only one."""
    place = PLACE.get()
    if place is not None:
        kernel = place.run.kernel
        if chosen is not None and chosen is not kernel:
            raise WrongPlace(
                f"{str(definition.key)!r} was called for another engine inside a workflow; the "
                "history of a workflow lives in one database: do it in a step, through a Client"
            )
    else:
        kernel = chosen or RUNNING.only_one_for(definition)
    check_loop(kernel)
    return kernel


def check_loop(kernel: Kernel | Speaker) -> None:
    """Refuse a call from elsewhere than the event loop of the engine or client."""
    try:
        is_here = asyncio.get_running_loop() is kernel.loop
    except RuntimeError:
        is_here = False
    if not is_here:
        raise WrongPlace(
            "this engine or client belongs to another event loop; call it from a coroutine of the "
            "loop it was started in"
        )
