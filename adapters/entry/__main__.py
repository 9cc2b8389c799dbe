"""`python -m causebook` and `causebook`: the command, quiet on a Ctrl-C while it is still loading."""

import sys


def run() -> None:
    """The entry point of `causebook`."""
    try:
        from causebook.adapters.cli.main import run as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
