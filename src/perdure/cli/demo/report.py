"""Says how a run ended."""

from typing import Any

from perdure.cli.demo.places import Places
from perdure.cli.demo.service import Post
from perdure.cli.demo.session import Result
from perdure.cli.demo.summary import SUMMARY
from perdure.cli.wording import printable, size
from perdure.logic.phrases import duration, plural

LISTED = 20
"""Failed files that are listed; all of them are in the summary's file."""


def text(where: Places, result: Result) -> str:
    """For people."""
    summary, row = result.summary, result.row
    lines = []
    if result.was_complete:
        lines.append("This archive is complete; nothing was changed. --again makes a new one.")
    rows = [
        ("archived", f"{plural(summary.archived, 'file')} of {where.folder}"),
        ("size", f"{size(summary.size)} in {size(summary.stored)} ({summary.ratio:.1%})"),
    ]
    if summary.passed_over:
        rows.append(("passed over", f"{summary.passed_over:,} (links and other special files)"))
    if not result.was_complete:
        rows.append(("skipped", f"{plural(result.recorded, 'file')} recorded by earlier starts"))
    rows += [
        ("processes", _processes(result)),
        ("time", _time(result)),
        ("attempts", f"{row.attempts}"),
        ("run", row.workflow_id),
        ("summary", f"{where.out}/{SUMMARY}"),
    ]
    lines += [f"{what:<16} {printable(value)}" for what, value in rows]
    return "\n".join(lines + _failures(result))


def document(where: Places, result: Result) -> dict[str, Any]:
    """For machines."""
    summary, row = result.summary, result.row
    return {
        "run": row.workflow_id,
        "folder": where.folder,
        "out": where.out,
        "summary": f"{where.out}/{SUMMARY}",
        "was_complete": result.was_complete,
        "archived": summary.archived,
        "bytes": summary.size,
        "stored_bytes": summary.stored,
        "ratio": round(summary.ratio, 4),
        "passed_over": summary.passed_over,
        "failed": [{"name": each.name, "reason": each.reason} for each in summary.failed],
        "recorded_before": result.recorded,
        "processes": [
            {"executor_id": executor, "files": files}
            for executor, files in sorted(result.census.files.items())
        ],
        "files_per_second": round(result.rate, 1),
        "attempts": row.attempts,
        "seconds": round(result.seconds, 3),
        "run_seconds": round(_run_seconds(result), 3),
    }


def _time(result: Result) -> str:
    whole = duration(_run_seconds(result))
    if result.was_complete:
        return f"{whole} from its beginning to its end"
    now = f"{duration(result.seconds)} now ({result.rate:,.0f} files/s)"
    return f"{now}, {whole} since the run began"


def _processes(result: Result) -> str:
    """Who settled how many files, this start's processes one by one."""
    census = result.census
    shares = [(_title(post), census.of(post)) for post in result.posts]
    ids = [each for each in census.files if not any(post.is_of(each) for post in result.posts)]
    if ids:
        kind = "process" if result.was_complete else "other process"
        files = sum(census.files[each] for each in ids)
        shares.append((plural(len(ids), kind, f"{kind}es"), files))
    return ", ".join(f"{title} {plural(files, 'file')}" for title, files in shares) or "none"


def _title(post: Post) -> str:
    return "this one" if post.number == 1 else f"worker {post.number}"


def _run_seconds(result: Result) -> float:
    row = result.row
    return max((row.completed_at_ms or row.updated_at_ms) - row.created_at_ms, 0) / 1000


def _failures(result: Result) -> list[str]:
    failed = result.summary.failed
    if not failed:
        return []
    lines = [f"not archived     {plural(len(failed), 'file')}:"]
    lines += [f"  {printable(each.name)}: {printable(each.reason)}" for each in failed[:LISTED]]
    if len(failed) > LISTED:
        lines.append(f"  and {len(failed) - LISTED:,} more, listed in the summary")
    return lines
