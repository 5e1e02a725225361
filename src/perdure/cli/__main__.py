"""`python -m perdure.cli` is the `perdure` program."""

from perdure.cli.main import main

main()
