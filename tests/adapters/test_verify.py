"""The report: every check answered, what was not checked said, and the code that follows."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest

from causebook.adapters.findings import (
    CHECKS,
    DIFFERS,
    FINDINGS_KEPT_MAX,
    FIRST_LOOK,
    INTACT,
    TAMPERED,
    UNLAWFUL,
    Check,
    Report,
    new_checks,
)
from causebook.adapters.reading import Source
from causebook.adapters.signature_checks import ALONE_MAX, SIGNATURES_MAX
from causebook.adapters.signatures import Library
from causebook.adapters.verification.verify import verify
from causebook.domain.errors import NoInput
from causebook.domain.ports import ModelFault
from tests.adapters.forge import Forge, MemorySource, long_ledger, reads, small_ledger, verdict


def test_an_untouched_ledger_is_a_first_look() -> None:
    report = verify(small_ledger().source())
    assert (report.code, report.codes, report.findings) == (FIRST_LOOK, [FIRST_LOOK], [])
    assert [check.name for check in report.checks] == list(CHECKS)
    unchecked = [check.name for check in report.checks if check.status == "NOT CHECKED"]
    assert unchecked == ["tree", "consistency", "witnesses", "time", "projections"]
    assert all(check.note for check in report.checks if check.status == "NOT CHECKED")
    assert (report.records, report.streams) == (69, 6)
    assert report["law"].note == "4 evaluations, 1 panel"
    assert report["signatures"].note == "by 2 keys"


def test_a_ledger_whose_founding_is_known_is_intact() -> None:
    assert verify(small_ledger().source(), anchored=True).code == INTACT


def test_roles_kept_together_are_said_to_be_self_asserted() -> None:
    assert "self-asserted" in verify(small_ledger().source())["roles"].note
    apart = Forge().found(custody="apart")
    assert "self-asserted" not in verify(apart.source())["roles"].note


@pytest.mark.parametrize("processes", [0, 1, 2, None])
@pytest.mark.parametrize("library", ["openssl", "libsodium"])
def test_processes_and_libraries_find_the_same(processes: int | None, library: Library) -> None:
    forge = long_ledger(12)
    source = forge.source()
    assert len(source.stored) > ALONE_MAX * SIGNATURES_MAX  # so that processes are started
    row = source.stored[200]
    source.stored[200] = type(row)(row.stream, row.version, row.type, forge.rows[201].record)
    for n in (3, 600):  # signed as the record before it
        line, signed = (
            source.stored[n].record.split(b"\n")[0],
            source.stored[n - 1].record.split(b"\n")[1],
        )
        source.stored[n] = source.stored[n]._replace(record=line + b"\n" + signed + b"\n")
    found = verify(source, processes=0)
    assert len(found["signatures"].findings) == 2
    expected = found.document()
    assert verify(source, processes=processes, library=library).document() == expected


def test_nothing_to_check_is_no_input() -> None:
    with pytest.raises(NoInput):
        verify(MemorySource([], {}))


def test_an_open_evaluation_is_listed_and_does_not_fail() -> None:
    forge = Forge().found()
    forge.open_task("T-1")
    forge.panel("T-1", {"a": [reads("a.py")], "b": [verdict("pass")], "c": []})
    report = verify(forge.source())
    assert (report.code, report["law"].status) == (FIRST_LOOK, "PASS")
    assert report.open_evaluations == (
        "evaluation/T-1/1/post_execute/a",
        "evaluation/T-1/1/post_execute/c",
    )
    assert report["law"].note == "3 evaluations, 0 panels, 2 evaluations open"


def test_every_way_a_task_can_go_is_lawful() -> None:
    forge = Forge().found()
    for task, severity in (("T-pass", "pass"), ("T-warn", "warn"), ("T-block", "blocker")):
        forge.open_task(task)
        forge.panel(task, {"a": [verdict(severity)], "b": [verdict("pass")]}, policy="any")
    forge.open_task("T-both")
    forge.panel("T-both", {"a": [verdict("pass")]}, phase="pre_execute")
    forge.panel("T-both", {"a": [reads("x"), verdict("pass")]})
    forge.open_task("T-escalated")
    forge.panel("T-escalated", {"a": [verdict("warn")], "b": [verdict("pass")]})
    forge.resolve("T-escalated", 1, "post_execute", "proceed", "warned")
    forge.open_task("T-faults")
    timeout = ModelFault("timeout", retryable=True, detail="slow")
    gone = ModelFault("auth", status=401)
    declines = ModelFault("bad_request", status=400, declines_tool_choice=True)
    forge.panel("T-faults", {"a": [timeout, gone], "b": [timeout, verdict("pass")]})
    forge.open_task("T-declined")
    forge.panel("T-declined", {"a": [declines, verdict("pass")]}, turns_max=1)
    forge.start_attempt("T-block", 2)
    forge.panel("T-block", {"a": [verdict("pass")]}, attempt=2)
    report = verify(forge.source())
    assert (report.code, report.findings) == (FIRST_LOOK, [])


def test_erased_evidence_is_named_and_does_not_fail() -> None:
    forge = small_ledger()
    forge.erase("T-1")
    report = verify(forge.source())
    assert (report.code, report["evidence"].status) == (FIRST_LOOK, "PASS")
    assert report["evidence"].note == "25 items, 25 erased by a named person"


def test_an_erasure_covers_nothing_that_came_after_it() -> None:
    forge = small_ledger()
    forge.erase("T-1")
    forge.start_attempt("T-1", 2)
    forge.panel("T-1", {"a": [verdict("pass")]}, attempt=2)
    assert verify(forge.source()).code == FIRST_LOOK
    gone, row = next(iter(forge.evidence.items()))
    del forge.evidence[gone]
    report = verify(forge.source())
    assert (report.codes, row.task) == ([DIFFERS], "T-1")


def test_an_erasure_covers_its_own_task_alone() -> None:
    forge = small_ledger("T-1")
    forge.open_task("T-2")
    missing = next(c for c, row in forge.evidence.items() if row.task == "T-2")
    forge.erase("T-1")
    del forge.evidence[missing]
    report = verify(forge.source())
    assert report.codes == [DIFFERS]
    assert report["evidence"].findings[0].place == f"task/T-2 v1 evidence {missing}"


def test_evidence_that_no_record_names_is_said() -> None:
    forge = small_ledger()
    forge.keep("T-1", b"left over")
    report = verify(forge.source())
    assert (report.code, report["evidence"].note) == (
        FIRST_LOOK,
        "25 items, 1 row that no record names",
    )


def test_evidence_kept_for_another_task_would_be_erased_with_it() -> None:
    forge = small_ledger()
    commitment, row = next(iter(forge.evidence.items()))
    forge.evidence[commitment] = type(row)(row.commitment, row.salt, "T-9", row.body)
    report = verify(forge.source())
    assert report.codes == [DIFFERS]
    assert report["evidence"].findings[0].found == "task T-9"


@dataclass(frozen=True)
class Differs:
    projection: str
    key: str
    expected: str
    found: str


def test_a_projection_that_differs() -> None:
    def compare(source: Source) -> list[Differs]:
        assert source.count() == 69
        return [Differs("halt_payload", "T-1", "blocked", "open")]

    report = verify(small_ledger().source(), projections_check=compare)
    assert report.codes == [DIFFERS]
    assert report["projections"].findings[0].place == "halt_payload T-1"
    passing = verify(small_ledger().source(), projections_check=lambda source: [])
    assert (passing["projections"].status, passing.code) == ("PASS", FIRST_LOOK)


def test_rows_that_the_store_counts_and_does_not_give() -> None:
    class Short(MemorySource):
        def count(self) -> int:
            return len(self.stored) + 1

    forge = small_ledger()
    report = verify(Short(forge.rows, forge.evidence))
    assert (report.codes, report["records"].findings[0].place) == ([TAMPERED], "the store")


def test_what_the_store_held_in_a_wrong_shape() -> None:
    forge = small_ledger()
    report = verify(MemorySource(forge.rows, forge.evidence, ["row 7: expected bytes, found int"]))
    assert report.codes == [TAMPERED]
    assert report["records"].findings[0].found == "row 7: expected bytes, found int"


def test_findings_beyond_those_kept_are_counted() -> None:
    check = Check("law")
    for n in range(FINDINGS_KEPT_MAX + 5):
        check.find(f"task/T v{n}", "x" * 10_000, "y", UNLAWFUL)
    assert (len(check.findings), check.more) == (FINDINGS_KEPT_MAX, 5)
    assert len(check.findings[0].expected) < 1000


def test_the_highest_code_wins_and_all_are_listed() -> None:
    checks = new_checks()
    checks["law"].find("a", "b", "c", UNLAWFUL)
    checks["records"].find("a", "b", "c", TAMPERED)
    checks["evidence"].find("a", "b", "c", DIFFERS)
    report = Report("here", "origin", 1, 1, (), tuple(checks.values()))
    assert (report.codes, report.code, report.meaning) == ([28, 24, 23], 28, "tampered")
    assert report.document()["codes"] == [28, 24, 23]


def test_a_law_that_could_not_be_derived_everywhere_is_not_said_to_hold() -> None:
    forge = small_ledger()
    source = forge.source()
    del source.stored[forge.at("evaluation/T-1/1/post_execute/security", 6)]
    report = verify(source)
    assert report["law"].status == "NOT CHECKED"
    assert "1 stream" in report["law"].note


@pytest.mark.parametrize("version", [1, 6, 22])
def test_a_record_that_cannot_be_read_makes_no_noise_in_the_law(version: int) -> None:
    forge = small_ledger()
    source = forge.source()
    n = forge.at("evaluation/T-1/1/post_execute/security", version)
    row = source.stored[n]
    source.stored[n] = type(row)(row.stream, row.version, row.type, b"spoiled")
    report = verify(source)
    assert report.codes == [TAMPERED]
    assert report["law"].findings == []


def test_verify_and_replay_load_no_store_no_model_and_no_server_library() -> None:
    script = (
        "import sys, causebook.adapters.verification.verify, causebook.adapters.replay\n"
        "import causebook.adapters.store.snapshot\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'eventsourcing', 'psycopg', 'psycopg_pool', 'litellm', 'rich', 'typer'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
