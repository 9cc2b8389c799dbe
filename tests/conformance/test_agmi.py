"""The tamper suite `agent-memory-integrity`, run as its user runs it: nine edits past the API, none accepted.

Its command passes an edit that it could not evaluate, so the verdicts are read from its JSON. Three controls
stand before each verdict: the untouched ledger verifies, it does so again after it was opened anew, and the
edit landed and touched nothing else. One that is not right takes the verdict away: NOT EVALUABLE for the
first two, ERROR for the third; that each does is shown with an adapter that breaks it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from causebook import Report, verify
from tests.conformance.agmi_adapter import CausebookAdapter
from tests.conftest import postgres_url

ROOT = Path(__file__).parents[2]

FOUND_BY = {
    "tamper": "signatures",
    "truncate": "consistency",
    "delete_middle": "chains",
    "reorder": "chains",
    "forge": "signatures",
    "cross_replay": "records",
    "rollback_replay": "records",
    "metadata_tamper": "signatures",
    "snapshot_rollback": "consistency",
}
"""Each edit of the suite, in its order, and the first check of ours that finds it."""


class Row(NamedTuple):
    """What the suite wrote: its exit code, and by edit the verdict and what is said of it."""

    code: int
    verdicts: dict[str, str]
    details: dict[str, str]


def agmi_check(adapter: str, folder: Path, **environment: str) -> Row:
    """Run the suite's command."""
    written = folder / "row.json"
    command = [Path(sys.executable).with_name("agmi-check"), "--adapter", adapter]
    done = subprocess.run(
        [*command, "--json", written],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert written.exists(), done.stderr
    edits = json.loads(written.read_bytes())["edits"]
    verdicts = {edit["attack"]: edit["verdict"] for edit in edits}
    return Row(done.returncode, verdicts, {edit["attack"]: edit["detail"] for edit in edits})


def require_each_reported(row: Row) -> None:
    assert list(row.verdicts) == list(FOUND_BY)
    assert set(row.verdicts.values()) <= {"REJECTED", "REPORTED"}, row
    for edit, check in FOUND_BY.items():
        assert f"; {check}" in row.details[edit], row.details
    assert row.code == 0


def test_no_edit_of_a_sqlite_ledger_is_accepted(tmp_path: Path) -> None:
    require_each_reported(agmi_check("tests.conformance.agmi_adapter:CausebookAdapter", tmp_path))


def test_no_edit_of_a_postgresql_ledger_is_accepted(tmp_path: Path, postgres_host: str) -> None:
    adapter = "tests.conformance.agmi_adapter:CausebookPostgresAdapter"
    uri = postgres_url(postgres_host, "postgres")
    require_each_reported(agmi_check(adapter, tmp_path, AGMI_POSTGRES_URI=uri))


class FirstLook(CausebookAdapter):
    """An auditor who kept nothing."""

    def look(self) -> Report:
        return verify(self.url, pins=False)


def test_a_first_look_accepts_what_only_something_kept_elsewhere_can_tell(tmp_path: Path) -> None:
    row = agmi_check("tests.conformance.test_agmi:FirstLook", tmp_path)
    accepted = {edit for edit, verdict in row.verdicts.items() if verdict == "ACCEPTED"}
    assert accepted == {edit for edit, check in FOUND_BY.items() if check == "consistency"}
    assert set(row.verdicts.values()) == {"REPORTED", "ACCEPTED"}
    assert row.code == 1


class NotClean(CausebookAdapter):
    """A ledger that was tampered with before it was first looked at."""

    def seed(self, n: int) -> None:
        super().seed(n)
        self.delete_raw(1)


class NotOpenedWhole(CausebookAdapter):
    """A ledger that does not survive being opened anew."""

    def reload(self) -> None:
        super().reload()
        self.delete_raw(1)


class NotLanded(CausebookAdapter):
    """An intruder who changes nothing."""

    def write_raw(self, record: object) -> None:
        """Nothing."""

    def delete_raw(self, seq: int) -> None:
        """Nothing."""

    def restore_store(self, token: object) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("broken", "verdict", "words", "code"),
    [
        (NotClean, "NOT EVALUABLE", "clean store failed to verify before attack", 2),
        (NotOpenedWhole, "NOT EVALUABLE", "failed to verify after a reload with no edit", 2),
        (NotLanded, "ERROR", "edit did not land: ", 3),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_each_control_takes_every_verdict_away_where_it_is_not_right(
    tmp_path: Path, broken: type[CausebookAdapter], verdict: str, words: str, code: int
) -> None:
    row = agmi_check(f"tests.conformance.test_agmi:{broken.__name__}", tmp_path)
    assert row.verdicts == dict.fromkeys(FOUND_BY, verdict), row.details
    assert all(words in detail for detail in row.details.values()), row.details
    assert row.code == code
