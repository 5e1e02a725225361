"""Checks that links between the project's Markdown pages lead somewhere.

Use: `python tools/links.py`. Links to other sites are not followed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

PROJECT = Path(__file__).parents[1]
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?[^)]*\)")
_HEADING = re.compile(r"^#+ +(.+?) *#*$", re.MULTILINE)


def pages() -> list[Path]:
    top = PROJECT.glob("*.md")
    below = (
        p
        for folder in ("docs", "changes", "benchmarks", "examples")
        for p in (PROJECT / folder).rglob("*.md")
    )
    return sorted([*top, *below])


def anchors(text: str) -> set[str]:
    """The names a page's headings can be reached under, as GitHub makes them."""
    plain = (
        re.sub(r"[^\w\- ]", "", heading.lower())
        for heading in _HEADING.findall(_FENCE.sub("", text))
    )
    return {heading.replace(" ", "-") for heading in plain}


def broken(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.relative_to(PROJECT)}: {target} is not there"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{page.relative_to(PROJECT)}: {target} names no heading"


def main() -> int:
    checked = pages()
    wrong = [fault for page in checked for fault in broken(page)]
    print("\n".join(wrong) if wrong else f"the links of {len(checked)} pages lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
