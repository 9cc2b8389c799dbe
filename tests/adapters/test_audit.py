"""`causebook.verify`: the library's look at a ledger, with its projections, pins and what was kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causebook import CausebookError, Ledger, verify
from causebook.adapters.projector import catch_up
from causebook.adapters.verification.pins import Pins
from causebook.domain.errors import BadData, IOFailure, Misuse, NoInput
from tests.adapters.ledgers import Home


@pytest.fixture
def home(store_url: str, tmp_path: Path) -> Home:
    """A ledger with one task and one attempt, not sealed."""
    home = Home.found(store_url, tmp_path)
    attempt(home, "T-1")
    return home


def attempt(home: Home, task: str) -> None:
    with home.open() as ledger:
        ledger.task(task).start_attempt().dispatch_coder("my-coder")


def seal(home: Home) -> bytes:
    """The checkpoint over all there is, as an auditor keeps it."""
    with home.open() as ledger:
        return ledger.seal().checkpoint.note.raw


def test_the_first_look_is_pinned_and_the_next_is_held_against_it(home: Home) -> None:
    assert verify(home.url).code == 20
    attempt(home, "T-2")
    again = verify(home.url, require_pin=True)
    assert (again.code, again.anchored, again.findings) == (0, True, [])
    (pin,) = Pins.of_user().all()
    assert pin.seen.size == again.records


def test_without_pins_none_is_read_or_kept(home: Home) -> None:
    verify(home.url)
    before = Pins.of_user().all()
    attempt(home, "T-2")
    report = verify(home.url, pins=False)
    assert (report.code, report["consistency"].status) == (20, "NOT CHECKED")
    assert Pins.of_user().all() == before


def test_a_checkpoint_that_was_kept_is_held_against_it(home: Home, tmp_path: Path) -> None:
    kept = seal(home)
    for each in (kept, kept.decode()):
        report = verify(home.url, checkpoints=[each], pins=False)
        assert report["consistency"].status == "PASS"
    other_store = f"sqlite:///{tmp_path / 'other.db'}"
    Ledger.found(other_store, keys=tmp_path / "other", origin="audit.example.com/team").close()
    (finding,) = verify(other_store, checkpoints=[kept], pins=False).findings
    assert (finding.check, finding.place) == ("consistency", "checkpoint 1 of those given")


def test_what_was_verified_is_only_hashed_from_a_pin(home: Home) -> None:
    verify(home.url)
    report = verify(home.url, from_pin=True)
    assert report.code == 0
    assert report.from_pin is not None
    assert report.from_pin.seen.size == report.records


def test_a_required_check_that_was_not_run_fails(home: Home) -> None:
    report = verify(home.url, required=["witnesses"])
    assert (report.code, report["witnesses"].status) == (22, "FAIL")
    assert verify(home.url).code == 20, "what failed was not pinned"


def test_projections_are_compared_where_there_are_any(home: Home) -> None:
    assert verify(home.url)["projections"].status == "NOT CHECKED"
    with home.store() as store:
        catch_up(store)
    assert verify(home.url)["projections"].status == "PASS"


GIVEN: dict[str, tuple[dict[str, Any], type[CausebookError], str]] = {
    "a checkpoint that is none": (
        {"checkpoints": [b"kept\n"]},
        BadData,
        "checkpoint 1 of those given: ",
    ),
    "a trust file that is none": ({"trust": b"{}"}, BadData, "trust"),
    "a policy that is none": ({"policy": b"quorum most\n"}, BadData, "policy"),
    "a check that is none": ({"required": ["faith"]}, Misuse, "found 'faith'"),
    "an age of nothing": ({"age_seconds_max": 60}, Misuse, "expected a policy"),
    "a pin of nobody": ({"pins": False, "require_pin": True}, Misuse, "found False"),
    "from the pin of nobody": ({"pins": False, "from_pin": True}, Misuse, "found False"),
}


@pytest.mark.parametrize("given", GIVEN)
def test_what_is_given_wrong_is_refused_before_anything_is_read(given: str) -> None:
    arguments, kind, words = GIVEN[given]
    with pytest.raises(kind, match=words):
        verify("sqlite:///no-such-folder/ledger.db", **arguments)


def test_no_ledger_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(NoInput):
        verify(f"sqlite:///{tmp_path / 'none.db'}")


def test_a_look_that_cannot_be_pinned_is_an_error(home: Home, state_folder: Path) -> None:
    (state_folder / "pins").mkdir()
    (state_folder / "pins" / ".lock").mkdir()
    with pytest.raises(IOFailure, match="no pin can be kept here"):
        verify(home.url)
    assert verify(home.url, pins=False).code == 20


def test_it_loads_neither_what_writes_nor_a_server_library(tmp_path: Path) -> None:
    home = Home.found(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path)
    script = "import sys, causebook; causebook.verify(sys.argv[1], pins=False); print(*sys.modules)"
    command = [sys.executable, "-c", script, home.url]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    heavy = {"eventsourcing", "litellm", "psycopg", "http.server", "typer", "rich"}
    assert heavy.isdisjoint(loaded)
    assert "causebook.adapters.verification.verify" in loaded
