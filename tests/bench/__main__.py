"""What an append and a verification cost, as ratios to their floors.

    python -m tests.bench            print them
    python -m tests.bench --write    and put them into docs/performance.md

Exits 1 where a promise is not held. Run it on a quiet machine: the disk decides most of it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import append, pinned, sealing, verification
from .measure import Machine, Ratio
from .report import DOCUMENT, lines, written


def main() -> int:
    """Measure and print; 1 where a promise is not held."""
    options = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    options.add_argument("--write", action="store_true", help=f"update {DOCUMENT.name}")
    options.add_argument(
        "--folder", type=Path, help="on the disk to measure, by default a temporary one"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="causebook-bench-", dir=given.folder) as name:
        appended = append.measure(Path(name))
        verified = verification.measure(appended[0].url)
        from_pin = pinned.measure(Path(name))
        sealed = sealing.measure(Path(name))
    ratios: list[Ratio] = [each.ratio for each in appended]
    ratios += [*verified.ratios, from_pin, *sealed]
    machine = Machine.here()
    text = lines(machine, ratios, appended, verified)
    sys.stdout.write("\n".join(text) + "\n")
    if given.write:
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
        sys.stdout.write(f"\n{DOCUMENT} is up to date\n")
    return 0 if all(ratio.holds for ratio in ratios) else 1


sys.exit(main())
