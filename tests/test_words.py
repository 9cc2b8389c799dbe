"""There is no fourth verdict, so there is no word for one: it stands in no file outside docs/adr/."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

TREE = Path(__file__).parents[1]
# Put together here, so that this file is not the one place that holds them.
WORDS = re.compile("|".join(("abst" + "ain", "abst" + "ention", r"non[-_ ]?" + "verdict")), re.I)


def test_no_word_for_a_missing_verdict_stands_outside_the_decision_records() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TREE,
        capture_output=True,
        check=True,
    ).stdout.decode()
    names = [name for name in listed.split("\0") if name and not name.startswith("docs/adr/")]
    assert len(names) > 50
    found = []
    for name in names:
        path = TREE / name
        if path.is_file() and (
            WORDS.search(name) or WORDS.search(path.read_text(encoding="utf-8", errors="replace"))
        ):
            found.append(name)
    assert found == []
