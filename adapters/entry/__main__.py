"""`python -m causebook` is the `causebook` command."""

from causebook.adapters.cli.main import run

run()
