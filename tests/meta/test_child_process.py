"""The suite's child processes: signals reach them, and none is left behind."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.process import ChildFailed, ChildProcess, alive, process_state
from tests.support.waiting import wait_until

COUNTER = """
import time
for i in range(10_000):
    print("tick", i)
    time.sleep(0.005)
"""


def test_waits_for_lines_in_turn_and_for_the_end() -> None:
    with ChildProcess("-c", "print('one'); print('two'); print('three')") as child:
        assert child.wait_for("two") == "two"
        assert child.wait_for(lambda line: line.startswith("t")) == "three"
        assert child.succeed() == ["one", "two", "three"]


def test_a_child_that_ends_without_the_line_is_reported_with_its_errors() -> None:
    with ChildProcess("-c", "import sys; print('was here'); sys.exit('my reason')") as child:
        with pytest.raises(ChildFailed, match=r"(?s)never printed 'ready'.*was here.*my reason"):
            child.wait_for("ready")
        with pytest.raises(ChildFailed, match="ended with 1"):
            child.succeed()


def test_a_paused_child_stands_still_and_goes_on() -> None:
    with ChildProcess("-c", COUNTER) as child:
        child.wait_for("tick")
        child.pause()
        assert process_state(child.pid) == "T"
        before = len(child.lines)
        child.resume()
        wait_until(lambda: len(child.lines) > before + 5)
        assert process_state(child.pid) != "T"


def test_kill_is_a_kill() -> None:
    with ChildProcess("-c", COUNTER) as child:
        child.wait_for("tick")
        child.kill()
        assert not child.running
        assert child.wait() == -signal.SIGKILL


def test_environment_and_project_are_visible_to_the_child() -> None:
    code = "import os, tests.support.process; print(os.environ['GIVEN'])"
    with ChildProcess("-c", code, env={"GIVEN": "here"}) as child:
        assert child.succeed() == ["here"]


def test_leaving_the_block_kills_grandchildren_too() -> None:
    code = "import os, time\nif pid := os.fork(): print(pid)\ntime.sleep(60)"
    with ChildProcess("-c", code) as child:
        grandchild = int(child.wait_for(str.isdigit))
        assert alive(grandchild)
    wait_until(lambda: not alive(grandchild))


HOLDER = """
import os, time
from tests.support.process import ChildProcess
child = ChildProcess("-c", "import time; print('up'); time.sleep(60)")
child.wait_for("up")
child.pause()
print(child.pid)
time.sleep(60)
"""


def test_a_killed_test_run_leaves_no_child_not_even_a_stopped_one() -> None:
    with ChildProcess("-c", HOLDER) as holder:
        stopped = int(holder.wait_for(str.isdigit))
        # Only the holder, not its group: the child must go by the reaper alone.
        os.kill(holder.pid, signal.SIGKILL)
        wait_until(lambda: not alive(stopped))
