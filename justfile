# Shortcuts; each is a command that also works without `just`.

python := ".venv/bin/python"

default:
    @just --list

# An environment with everything a contributor needs.
setup:
    python3 -m venv .venv
    .venv/bin/pip install -e '.[cli,test,dev]'

# All tests, or those named.
test *arguments:
    {{python}} -m pytest -n auto {{arguments}}

# All checks, or those named.
check *names:
    {{python}} tools/check.py {{names}}

# Put code into the project's form.
format:
    {{python}} -m ruff format .
    {{python}} -m ruff check --fix .

# Record the public names after a change that is meant.
names:
    {{python}} tools/public_names.py --update

# A command with a private Postgres in PERDURE_TEST_POSTGRES.
postgres *command:
    {{python}} -m tests.support.postgres {{command}}

# What the merge gate runs.
ci:
    .ci/run
