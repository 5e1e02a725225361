"""The entry point of the `perdure` program."""

import sys
from importlib.util import find_spec

_PARTS = ("typer", "rich")
"""What the extra `cli` installs."""


def main() -> None:
    """Run the program, or say how to install what it needs."""
    missing = [part for part in _PARTS if find_spec(part) is None]
    if missing:
        print(
            f"perdure: the command line needs {' and '.join(missing)}, which is not installed; "
            "install it with: pip install 'perdure[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    from perdure.cli.program import program

    program(prog_name="perdure")
