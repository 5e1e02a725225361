"""`perdure demo`, from one end to the other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from perdure.cli.demo import listing, packing
from perdure.cli.demo.listing import Page
from perdure.cli.demo.service import APPLICATION
from tests.edges import archives
from tests.edges.program import perdure
from tests.edges.records import counted
from tests.support.process import PROJECT, ChildProcess
from tests.support.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return archives.tree(tmp_path / "folder", 30)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_every_file_is_archived_and_the_summary_says_so(folder: Path, out: Path) -> None:
    ran = perdure("demo", folder, "--out", out)
    assert ran.code == 0
    assert "archiving 30 files" in ran.out
    assert f"archived         30 files of {folder}" in ran.out
    assert "processes        this one 30 files" in ran.out
    source = archives.contents(folder)
    assert archives.archived(out) == archives.recorded(out) == source
    summary = archives.summary(out)
    assert summary["folder"] == str(folder)
    assert summary["bytes"] == sum(path.stat().st_size for path in folder.rglob("*.txt"))
    assert summary["stored_bytes"] == sum(
        path.stat().st_size for path in (out / "files").rglob("*.gz")
    )
    assert sorted(path.name for path in out.iterdir()) == [
        ".perdure-demo.json",
        "files",
        "perdure.db",
        "perdure.db.perdure",
        "summary.json",
    ]


def test_the_environment_s_database_is_left_alone(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBOS_SYSTEM_DATABASE_URL", f"sqlite:///{out}/production.db")
    assert perdure("demo", folder, "--out", out).code == 0
    assert (out / "perdure.db").exists()
    assert not (out / "production.db").exists()


def test_a_second_time_nothing_changes_and_again_begins_anew(folder: Path, out: Path) -> None:
    first = perdure("demo", folder, "--out", out, "--json").json
    assert [each["files"] for each in first["processes"]] == [30]
    assert first["files_per_second"] == pytest.approx(30 / first["seconds"], rel=0.1)
    (folder / "new.txt").write_text("new")
    second = perdure("demo", folder, "--out", out, "--json").json
    assert second == {
        **first,
        "was_complete": True,
        "recorded_before": 30,
        "seconds": 0.0,
        "files_per_second": 0.0,
    }
    assert "new.txt" not in archives.recorded(out)
    third = perdure("demo", folder, "--out", out, "--again", "--json").json
    assert (third["run"], third["archived"], third["recorded_before"]) == (
        first["run"].replace("-run1", "-run2"),
        31,
        0,
    )
    assert archives.recorded(out) == archives.contents(folder)
    complete = perdure("demo", folder, "--out", out).out
    assert "is complete" in complete
    assert "processes        1 process 31 files" in complete


def test_a_folder_without_files_is_archived_too(tmp_path: Path, out: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert perdure("demo", tmp_path / "empty", "--out", out).code == 0
    assert archives.summary(out)["archived"] == 0


def test_names_of_any_bytes_empty_files_and_links(tmp_path: Path, out: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 \xff\x1b[31m\n.txt")
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / odd).write_text("odd")
    (folder / "empty").touch()
    (folder / "link").symlink_to("empty")
    (folder / "a.gz").mkdir()
    (folder / "a.gz/inner").write_text("inner")
    (folder / "a").write_text("a")
    ran = perdure("demo", folder, "--out", out)
    assert ran.code == 0
    assert "1 (links and other special files)" in ran.out
    assert archives.recorded(out) == archives.contents(folder)
    assert archives.summary(out)["passed_over"] == [{"name": "link", "reason": "a symbolic link"}]


def test_the_archive_may_lie_in_the_folder(folder: Path) -> None:
    source = archives.contents(folder)
    for _ in range(2):
        assert perdure("demo", folder, "--out", folder / "deep/out", "--again").code == 0
        assert archives.recorded(folder / "deep/out") == source


def test_a_database_in_the_folder_is_not_touched(folder: Path, out: Path) -> None:
    source = archives.contents(folder)
    database = f"sqlite:///{folder}/run.db"
    assert perdure("demo", folder, "--out", out, "--database", database).code == 0
    assert archives.recorded(out) == source
    assert not (out / "perdure.db").exists()


def test_files_that_vanish_or_change_kind_are_listed_and_fail_the_program(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, linked = "part-0/0/file-0000.txt", "part-1/1/file-0001.txt"
    list_page = listing.list_page

    def then_they_go(folder: str, leave_out: list[str], after: str | None) -> Page:
        page = list_page(folder, leave_out, after)
        Path(folder, gone).unlink()
        Path(folder, linked).unlink()
        Path(folder, linked).symlink_to("/etc/passwd")
        return page

    monkeypatch.setattr(listing, "list_page", then_they_go)
    ran = perdure("demo", folder, "--out", out)
    assert ran.code == 1
    assert "not archived     2 files:" in ran.out
    assert f"  {gone}: " in ran.out
    failed = {each["name"]: each["reason"] for each in archives.summary(out)["failed"]}
    assert set(failed) == {gone, linked}
    assert "No such file" in failed[gone]
    assert archives.archived(out).keys() == archives.contents(folder).keys()
    again = perdure("demo", folder, "--out", out, "--json")
    assert (again.code, again.json["was_complete"]) == (1, True)
    assert {each["name"] for each in again.json["failed"]} == {gone, linked}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "--out", "out"), "does not exist"),
        (("folder", "--out", "folder"), "--out is the folder to archive"),
        (("folder", "--out", "folder/part-0/0/file-0000.txt"), "is a file"),
        (("folder", "--out", "taken"), "is not part of an archive"),
        (("folder",), "--out"),
        (("folder", "--out", "out", "--database", "mysql://x"), "no database of the kind 'mysql'"),
    ],
)
def test_wrong_use_is_refused(
    tmp_path: Path,
    folder: Path,
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/summary.json").write_text("mine")
    monkeypatch.chdir(tmp_path)
    ran = perdure("demo", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""
    assert (tmp_path / "taken/summary.json").read_text() == "mine"


@pytest.mark.parametrize("name", [b"caf\xe9", b"what?"])
def test_an_archive_of_any_name_needs_a_database_elsewhere(
    folder: Path, tmp_path: Path, name: bytes
) -> None:
    out = tmp_path / os.fsdecode(name)
    ran = perdure("demo", folder, "--out", out)
    assert ran.code == 2
    assert "name another --out, or a database elsewhere with --database" in ran.err
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    assert perdure("demo", folder, "--out", out, "--database", url).code == 0
    assert archives.archived(out) == archives.contents(folder)


def test_on_a_terminal_it_draws_a_bar_and_keeps_the_notes(folder: Path, out: Path) -> None:
    """Only what a terminal keeps is looked at: the cursor's moves depend on the speed."""
    drawn = on_a_terminal("-m", "perdure.cli", "demo", str(folder), "--out", str(out))
    assert "\x1b[2K" in drawn
    assert "archiving 30 files\r\n" in drawn
    assert f"archived         30 files of {folder}\r\n" in drawn


def on_a_terminal(*arguments: str) -> str:
    """Runs Python on a terminal of its own; returns all that was written to it."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, cwd=PROJECT
    ) as process:
        os.close(terminal)
        written = b""
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            while part := os.read(controller, 65536):
                written += part
    os.close(controller)
    assert process.returncode == 0
    return written.decode()


def test_an_archive_belongs_to_one_folder(folder: Path, out: Path) -> None:
    assert perdure("demo", folder, "--out", out).code == 0
    other = perdure("demo", folder / "part-0", "--out", out)
    assert other.code == 2
    assert f"holds the archive of {folder}" in other.err
    inside = perdure("demo", out / "files/part-0", "--out", out)
    assert inside.code == 2
    assert "is a part of the archive" in inside.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_in_order_and_the_run_goes_on(
    tmp_path: Path, out: Path, number: signal.Signals
) -> None:
    folder = archives.tree(tmp_path / "big", 5)
    archives.add_endless(folder)
    with ChildProcess("-m", "perdure.cli", "demo", folder, "--out", out) as child:
        child.wait_for("6 files")
        os.kill(child.pid, number)
        assert child.wait() == 130
        assert "stopped; the same command goes on" in child.errors
        assert "Traceback" not in child.errors
    url = f"sqlite:///{out}/perdure.db"
    waiting = perdure("workflow", "list", "--app", APPLICATION, "-d", url, "--json").json
    (run,) = [row for row in waiting if row["name"] == "demo.archive_folder"]
    assert (run["state"], run["attempts"]) == ("ENQUEUED", 0)
    unfinished = perdure("demo", folder, "--out", out, "--again")
    assert unfinished.code == 2
    assert "is not finished" in unfinished.err
    archives.end_endless(folder)
    assert perdure("demo", folder, "--out", out, "--json").json["attempts"] == 1
    assert archives.recorded(out) == archives.contents(folder)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_second_process_helps_the_first(tmp_path: Path, out: Path) -> None:
    """It serves the same queue, and takes the run over when the first one dies."""
    folder = archives.tree(tmp_path / "big", 5)
    archives.add_endless(folder)
    command = ("-m", "perdure.cli", "demo", folder, "--out", out)
    with ChildProcess(*command) as first:
        first.wait_for("6 files")
        wait_until(lambda: reads_the_endless_file_alone(out))
        # The first one has opened the other; the second is to come to an end.
        archives.end_endless(folder)
        with ChildProcess(*command) as second:
            second.wait_for("another process leads the work on this archive")
            first.kill()
            second.wait_for("is dead: 2 workflows go on", deadline_s=90)
            second.wait_for("its work goes on here: 6 files in all")
            second.succeed(deadline_s=90)
    assert archives.recorded(out) == archives.contents(folder)


def reads_the_endless_file_alone(out: Path) -> bool:
    """Whether all other files are settled; an archive is begun once its file is open."""
    settled = counted(
        out / "perdure.db", "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"
    )
    return settled == 5 and len(list((out / packing.UNFINISHED).iterdir())) == 1
