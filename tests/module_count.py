"""Lint's own check: what mypy saw is what the tree holds."""

import pkgutil
import sys
from pathlib import Path

import causebook

TREE = Path(__file__).parents[1]


def main() -> int:
    """Compare the installed package's modules with the files of the four rooms."""
    seen = {m.name for m in pkgutil.walk_packages(causebook.__path__, "causebook.")} | {"causebook"}
    files = [
        path
        for room in ("domain", "projections", "adapters")
        for path in (TREE / room).rglob("*.py")
    ]
    if len(seen) != len(files):
        print(f"modules: expected {len(files)} as in the tree, found {len(seen)}", file=sys.stderr)
        return 1
    print(f"{len(seen)} modules checked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
