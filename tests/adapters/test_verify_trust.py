"""Consistency, witnesses, time, and what has to pass: a ledger against what its auditor knows beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from causebook.adapters import split_view
from causebook.adapters.findings import (
    CHECKS,
    FIRST_LOOK,
    FORKED,
    INTACT,
    TAMPERED,
    TRUNCATED,
    UNVERIFIABLE,
    CheckName,
    Finding,
    Report,
)
from causebook.adapters.signatures import verifier
from causebook.adapters.store.port import Position
from causebook.adapters.verification.held import Against, Heard
from causebook.adapters.verification.pin import Looked, Pin
from causebook.adapters.verification.verify import verify
from causebook.adapters.verification.witnesses import AHEAD_SECONDS_MAX
from causebook.domain.checkpoint import SignedCheckpoint, cosign
from causebook.domain.errors import BadData
from causebook.domain.events import EvidenceErased, TaskOpened, event_from
from causebook.domain.note import COSIGNATURE, NoteKey
from causebook.domain.policy import Policy
from causebook.domain.record import digest
from causebook.domain.trust import Trust
from tests.adapters.forge import (
    Forge,
    Key,
    MemorySource,
    document,
    long_ledger,
    reads,
    small_ledger,
    tiles_of,
    verdict,
)

AT = "2026-11-29T09:00:00Z"
PLACE = "sqlite:////srv/ledger.db"
NOW = 1_795_000_000


def ledger(seed: str = "forge", *, task: str = "T-1") -> Forge:
    """A sealed ledger of one task: 5 records of its founding and keys, then the task."""
    forge = Forge(seed=seed).found()
    forge.enrol("log")
    forge.open_task(task)
    forge.panel(task, {"a": [reads("a.py"), verdict("pass")]})
    forge.seal()
    return forge


def grown(forge: Forge, task: str = "T-2") -> Forge:
    """The ledger with another task, sealed again."""
    forge.open_task(task)
    forge.panel(task, {"a": [reads("b.py"), verdict("pass")]})
    forge.seal()
    return forge


def pin(forge: Forge, **changes: Any) -> Pin:
    """What an earlier look at the ledger pinned."""
    looked = verify(forge.source()).looked
    assert looked is not None
    return Pin(replace(looked, **changes), (PLACE,), AT)


def look(forge: Forge | MemorySource, **against: Any) -> Report:
    source = forge if isinstance(forge, MemorySource) else forge.source()
    return verify(source, against=Against(**{"now": lambda: NOW} | against))


def failed(report: Report) -> set[str]:
    return {check.name for check in report.checks if check.status == "FAIL"}


def only(report: Report, name: CheckName) -> Finding:
    """The one finding of one check, which alone failed."""
    assert failed(report) == {name}, report.findings
    (finding,) = report[name].findings
    return finding


def cut(forge: Forge, count: int, *, sealed: bool = False) -> MemorySource:
    """The ledger without its last `count` records; `sealed`: without the checkpoints over them as well."""
    source = forge.source()
    del source.stored[-count:]
    if sealed:
        source.sealed = [row for row in source.sealed if row.size <= len(source.stored)]
        size = source.sealed[-1].size
        source.tree = tiles_of(source.stored[:size])
        source.at = Position(1, size, digest(source.stored[size - 1].record))
    return source


# ── pins ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_first_look_is_not_checked() -> None:
    report = look(ledger())
    check = report["consistency"]
    assert (report.code, check.status) == (FIRST_LOOK, "NOT CHECKED")
    assert check.note == "a first look: nothing to hold it against"
    said = look(ledger(), why_no_pins="no pin is read")["consistency"].note
    assert said == "no pin is read: nothing to hold it against"


def test_what_was_pinned_holds() -> None:
    forge = ledger()
    known = pin(forge)
    for _ in range(2):
        report = look(forge, pins=[known], places=[PLACE])
        assert (report.code, report.codes, failed(report)) == (INTACT, [INTACT], set())
        size = known.seen.size
        assert report["consistency"].note == f"holds the pin of 2026-11-29, size {size}"
        grown(forge)


def test_a_pin_of_another_ledger_elsewhere_says_nothing() -> None:
    other = pin(ledger("other"), origin="other.example")
    other = replace(other, locations=("sqlite:////elsewhere.db",))
    assert look(ledger(), pins=[other], places=[PLACE]).code == FIRST_LOOK


@pytest.mark.parametrize("sealed", [False, True])
def test_a_tail_that_was_cut(sealed: bool) -> None:
    forge = grown(ledger())
    known = pin(forge)
    report = look(cut(forge, 3, sealed=sealed), pins=[known])
    assert report.code == TRUNCATED
    (finding,) = report["consistency"].findings
    assert (finding.place, finding.code) == ("the pin of 2026-11-29", TRUNCATED)
    assert finding.expected == f"{len(forge.rows)} records or more, as it had then"


def test_a_tail_that_was_cut_off_a_ledger_that_nobody_sealed() -> None:
    forge = small_ledger()
    known = pin(forge)
    assert known.seen.checkpoint is None
    source = MemorySource(forge.rows[:-3], forge.evidence)
    finding = only(look(source, pins=[known]), "consistency")
    assert (finding.code, finding.found) == (TRUNCATED, "66")


def test_another_history_of_the_same_founding() -> None:
    """Whoever holds all keys goes back to the first task and goes on otherwise."""
    forge = ledger()
    known = pin(grown(ledger()))
    report = look(grown(forge, "T-3"), pins=[known])
    finding = only(report, "consistency")
    assert (finding.place, finding.code) == ("the pin of 2026-11-29", FORKED)
    assert finding.expected == f"root {known.seen.root.hex()} at size {known.seen.size}"


def test_found_again_under_the_same_name() -> None:
    known = pin(ledger())
    report = look(ledger("other"), pins=[known], places=["sqlite:////elsewhere.db"])
    finding = only(report, "consistency")
    assert (finding.code, finding.expected) == (FORKED, f"founding {known.seen.founding}")
    assert finding.found == report.founding != known.seen.founding


def test_found_again_at_the_same_place() -> None:
    forge = Forge(origin="new.example").found()
    known = pin(ledger())
    finding = only(look(forge, pins=[known], places=[PLACE]), "consistency")
    assert (finding.place, finding.code) == ("this place", FORKED)
    assert finding.expected == "audit.example.com/team, seen here on 2026-11-29"
    assert look(forge, pins=[known], places=["sqlite:////elsewhere.db"]).code == FIRST_LOOK


def test_another_root_key() -> None:
    forge = ledger()
    finding = only(look(forge, pins=[pin(forge, root_key=Key("x").text)]), "consistency")
    assert (finding.code, finding.expected) == (FORKED, f"root key {Key('x').text}")


def test_another_head_of_the_ledger_s_own_stream() -> None:
    forge = ledger()
    known = pin(forge, ledger_digest="0" * 64)
    assert only(look(forge, pins=[known]), "consistency").code == FORKED
    known = pin(forge, ledger_version=9)
    assert only(look(forge, pins=[known]), "consistency").code == TRUNCATED


def test_a_checkpoint_that_is_gone_from_the_store() -> None:
    """All records are there, and the newest checkpoint over them is not."""
    forge = grown(ledger())
    known = pin(forge)
    forge.sealed.pop()
    finding = only(look(forge, pins=[known]), "consistency")
    assert finding.code == TRUNCATED
    assert finding.expected == f"a checkpoint of size {len(forge.rows)} in the store, as then"


def test_a_checkpoint_of_a_key_that_lost_its_trust_is_not_missed() -> None:
    forge = ledger()
    old = forge.keys["log"]
    size = len(forge.rows)
    grown(forge)
    known = pin(forge)
    forge.enrol("log")
    forge.retire(old, size)
    forge.seal()
    report = look(forge, pins=[known])
    assert (report.code, failed(report)) == (INTACT, set())


def test_without_a_pin_where_one_is_required() -> None:
    forge = ledger()
    finding = only(look(forge, require_pin=True), "consistency")
    assert (finding.code, finding.found) == (UNVERIFIABLE, "none: this is a first look")
    assert look(forge, require_pin=True, pins=[pin(forge)]).code == INTACT


# ── a checkpoint that the auditor kept ───────────────────────────────────────────────────────────────


def kept(forge: Forge, size: int | None = None, key: Key | None = None) -> SignedCheckpoint:
    size = len(forge.rows) if size is None else size
    return SignedCheckpoint.parse(forge.note(size, key).encode())


def test_a_checkpoint_that_was_kept_holds_and_anchors_nothing() -> None:
    forge = ledger()
    note = kept(forge)
    report = look(grown(forge), checkpoints=[("kept.txt", note)])
    assert (report.code, failed(report)) == (FIRST_LOOK, set())
    assert report["consistency"].note == f"holds kept.txt, size {note.checkpoint.size}"


def test_fewer_records_than_a_checkpoint_counts() -> None:
    forge = grown(ledger())
    report = look(cut(forge, 3, sealed=True), checkpoints=[("kept.txt", kept(forge))])
    finding = only(report, "consistency")
    assert (finding.place, finding.code) == ("kept.txt", TRUNCATED)


def test_another_root_than_a_checkpoint_s_is_a_split_view_that_anybody_can_check() -> None:
    one, two = grown(ledger(), "T-2"), grown(ledger(), "T-3")
    note = kept(one)
    two.seal()
    report = look(grown(two, "T-4"), checkpoints=[("kept.txt", note)])
    assert only(report, "consistency").code == FORKED
    assert report.split_view is not None
    assert report.split_view.older == note
    signer = NoteKey(one.origin, one.keys["log"].public)
    assert split_view.check(report.split_view, [signer], verifier()) == signer


def test_two_checkpoints_of_one_size_are_a_split_view() -> None:
    one, two = grown(ledger(), "T-2"), grown(ledger(), "T-3")
    report = look(two, checkpoints=[("kept.txt", kept(one))])
    assert report.split_view is not None
    assert report.split_view.path == ()
    assert look(one, checkpoints=[("kept.txt", kept(one))]).split_view is None


def test_a_split_view_needs_a_checkpoint_of_the_store_s_own() -> None:
    one, two = grown(ledger(), "T-2"), grown(ledger(), "T-3")
    two.sealed.pop()
    report = look(two, checkpoints=[("kept.txt", kept(one))])
    assert report.code == FORKED
    assert report.split_view is None


def test_of_two_kept_checkpoints_that_contradict_each_other_one_is_enough() -> None:
    """The store holds no checkpoint of its own, and the rows agree with one of two people."""
    one, two = grown(ledger(), "T-2"), grown(ledger(), "T-3")
    notes = [("one.txt", kept(one)), ("two.txt", kept(two))]
    two.sealed.clear()
    report = look(two, checkpoints=notes)
    assert report.code == FORKED
    assert report.split_view is not None
    split_view.check(report.split_view, [NoteKey(one.origin, one.keys["log"].public)], verifier())


def test_a_pinned_checkpoint_that_is_contradicted_is_a_split_view() -> None:
    known = pin(grown(ledger(), "T-2"))
    report = look(grown(ledger(), "T-3"), pins=[known])
    assert report.split_view is not None
    assert known.seen.checkpoint in (report.split_view.older, report.split_view.newer)


@pytest.mark.parametrize("size", [5, 64, 128])
def test_a_split_view_of_any_older_size(size: int) -> None:
    """At a power of two the proof for a verifier would leave out the very root that differs."""
    one, two = ledger(), ledger()
    for n in range(12):
        grown(one, f"T-a{n}")
        grown(two, f"T-b{n}")
    at = 40 if size == 5 else size
    report = look(two, checkpoints=[("kept.txt", kept(one, at))])
    assert report.split_view is not None
    split_view.check(report.split_view, [NoteKey(one.origin, one.keys["log"].public)], verifier())


def test_a_checkpoint_of_another_log() -> None:
    other = Forge(origin="other.example").found()
    other.enrol("log")
    finding = only(look(ledger(), checkpoints=[("kept.txt", kept(other))]), "consistency")
    assert (finding.code, finding.found) == (FORKED, "one of other.example")


def test_a_checkpoint_by_a_key_that_the_ledger_did_not_enrol() -> None:
    forge = ledger()
    note = kept(forge, key=Key("nobody"))
    finding = only(look(forge, checkpoints=[("kept.txt", note)]), "consistency")
    assert finding.code == UNVERIFIABLE
    # Where the policy names that key as the log's, the ledger is not that log.
    policy = Policy.parse(
        f"log {NoteKey(forge.origin, Key('nobody').public).vkey}\nquorum none\n".encode()
    )
    report = look(forge, checkpoints=[("kept.txt", note)], policy=policy)
    assert report["consistency"].findings[0].code == FORKED


def test_a_checkpoint_whose_signature_does_not_hold() -> None:
    forge = ledger()
    signature = kept(forge, 6).note.signatures
    note = kept(forge)
    spoiled = replace(note, note=replace(note.note, signatures=signature))
    finding = only(look(forge, checkpoints=[("kept.txt", spoiled)]), "consistency")
    assert (finding.code, finding.expected) == (UNVERIFIABLE, "a signature that holds")


def test_a_checkpoint_past_the_trust_in_its_key_is_no_authority() -> None:
    forge = ledger()
    old, size = forge.keys["log"], len(forge.rows)
    forge.enrol("log")
    forge.retire(old, size)
    forge.seal()
    note = SignedCheckpoint.parse(forge.note(size + 1, old).encode())
    finding = only(look(forge, checkpoints=[("kept.txt", note)]), "consistency")
    assert finding.code == UNVERIFIABLE
    early = SignedCheckpoint.parse(forge.note(size, old).encode())
    assert failed(look(forge, checkpoints=[("kept.txt", early)])) == set()


# ── the trust file ───────────────────────────────────────────────────────────────────────────────────


def trust(forge: Forge, **changes: Any) -> Trust:
    own = [row for row in forge.rows if row.stream == "ledger"]
    founding, head = digest(own[0].record), digest(own[-1].record)
    at = forge.rows.index(own[-1])
    given = Trust(forge.origin, founding, forge.keys["root"].text, len(own), head, at)
    return replace(given, **changes)


def test_a_trust_file_anchors() -> None:
    forge = ledger()
    report = look(forge, trust=trust(forge))
    assert (report.code, failed(report)) == (INTACT, set())
    assert report["consistency"].note == "holds the trust file, up to ledger v4"
    forge.enrol("engine")  # the stream goes on
    assert look(forge, trust=trust(ledger())).code == INTACT


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"origin": "other.example"}, FORKED),
        ({"founding": "0" * 64}, FORKED),
        ({"root_key": Key("x").text}, FORKED),
        ({"ledger_digest": "0" * 64}, FORKED),
        ({"ledger_index": 9}, FORKED),
        ({"ledger_version": 5}, TRUNCATED),
    ],
)
def test_a_trust_file_that_does_not_fit(changes: dict[str, Any], code: int) -> None:
    forge = ledger()
    report = look(forge, trust=trust(forge, **changes))
    assert only(report, "consistency").code == code
    assert report.anchored is False


def test_a_retirement_that_was_left_out_is_missed() -> None:
    forge = ledger()
    engine, size = forge.keys["engine"], len(forge.rows)
    forge.enrol("engine")
    forge.retire(engine, size)
    given = trust(forge)
    report = look(forge, trust=given)
    assert (report.code, failed(report)) == (INTACT, set())
    forge.rows.pop()
    finding = only(look(forge, trust=given), "consistency")
    assert (finding.code, finding.found) == (TRUNCATED, "v5 as its last")


# ── witnesses ────────────────────────────────────────────────────────────────────────────────────────

WITNESSES = {name: Key(f"witness/{name}") for name in ("w1", "w2", "w3")}


def note_key(name: str) -> NoteKey:
    return NoteKey(f"{name}.example", WITNESSES[name].public, COSIGNATURE)


def policy(
    quorum: str = "2", *, log: Key | None = None, origin: str = "audit.example.com/team"
) -> Policy:
    """Two of three witnesses, and where `log` is given the log's key."""
    lines = [f"witness {name} {note_key(name).vkey}" for name in WITNESSES]
    if log is not None:
        lines.insert(0, f"log {NoteKey(origin, log.public).vkey}")
    if quorum == "none":
        lines.append("quorum none")
    else:
        lines += [f"group all {quorum} w1 w2 w3", "quorum all"]
    return Policy.parse("".join(f"{line}\n" for line in lines).encode())


def cosigned(forge: Forge, size: int | None = None, **times: int) -> Forge:
    """Keep cosignatures of these witnesses at these times on the checkpoint of that size."""
    size = forge.sealed[-1].size if size is None else size
    place = next(n for n, row in enumerate(forge.sealed) if row.size == size)
    row = forge.sealed[place]
    text = SignedCheckpoint.parse(row.note).note.text
    lines = [
        cosign(text, note_key(name), time, WITNESSES[name].sign).line.encode()
        for name, time in times.items()
    ]
    forge.sealed[place] = replace(row, cosignatures=(*row.cosignatures, *lines))
    return forge


def test_without_a_policy_witnesses_are_not_checked() -> None:
    check = look(cosigned(ledger(), w1=NOW))["witnesses"]
    assert (check.status, check.note) == ("NOT CHECKED", "no policy given: --policy FILE")


def test_a_quorum_is_as_old_as_its_kth_newest_cosignature() -> None:
    forge = cosigned(ledger(), w1=NOW - 10, w2=NOW - 7200, w3=NOW - 86400)
    report = look(forge, policy=policy())
    size = len(forge.rows)
    assert (report.code, failed(report)) == (FIRST_LOOK, set())
    assert report["witnesses"].note == (
        f"size {size} cosigned by 3 of 3 witnesses, the quorum since {when(NOW - 7200)}, "
        "survives 0 colluding witnesses"
    )
    assert look(forge, policy=policy("all"))["witnesses"].note.endswith(
        f"the quorum since {when(NOW - 86400)}, survives 2 colluding witnesses"
    )


def when(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def test_two_disjoint_quorums_are_warned_of() -> None:
    forge = cosigned(ledger(), w1=NOW)
    note = look(forge, policy=policy("any"))["witnesses"].note
    assert "two disjoint quorums exist: a split view needs no witness to lie" in note
    assert "disjoint" not in look(cosigned(forge, w2=NOW), policy=policy())["witnesses"].note


def test_too_few_witnesses() -> None:
    finding = only(look(cosigned(ledger(), w2=NOW), policy=policy()), "witnesses")
    assert finding.code == UNVERIFIABLE
    assert finding.found.endswith("1 of 3 witnesses, without w1, w3")
    finding = only(look(ledger(), policy=policy()), "witnesses")
    assert finding.found == "no checkpoint that a witness cosigned"


def test_the_newest_checkpoint_that_reaches_the_quorum_counts() -> None:
    forge = ledger()
    size = len(forge.rows)
    cosigned(forge, w1=NOW - 60, w2=NOW - 60)
    grown(forge)
    cosigned(forge, w1=NOW)
    past = len(forge.rows) - size
    note = look(forge, policy=policy())["witnesses"].note
    assert note.startswith(f"size {size} cosigned by 2 of 3 witnesses")
    assert note.endswith(f"{past} records lie past it")


def test_a_stale_checkpoint_under_valid_cosignatures() -> None:
    """Nothing in it is wrong: it is what the operator shows who is kept in the dark."""
    forge = cosigned(ledger(), w1=NOW - 90_000, w2=NOW - 90_000, w3=NOW - 1)
    assert failed(look(forge, policy=policy())) == set()
    assert failed(look(forge, policy=policy(), age_seconds_max=172_800)) == set()
    finding = only(look(forge, policy=policy(), age_seconds_max=86_400), "witnesses")
    assert (finding.code, finding.expected) == (UNVERIFIABLE, "a quorum no older than 1d")


def test_a_quorum_from_a_time_to_come() -> None:
    forge = cosigned(ledger(), w1=NOW + 200, w2=NOW + 200)
    assert failed(look(forge, policy=policy())) == set()
    cosigned(forge, w1=2**60, w2=2**60)
    finding = only(look(forge, policy=policy()), "witnesses")
    assert (finding.code, finding.found) == (UNVERIFIABLE, f"POSIX second {2**60}")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(86_400, "1d"), (129_600, "36h"), (5_400, "90m"), (45, "45s"), (61, "61s")],
)
def test_an_age_is_said_as_a_person_would(seconds: int, said: str) -> None:
    forge = cosigned(ledger(), w1=NOW - seconds, w2=NOW - seconds)
    assert failed(look(forge, policy=policy(), age_seconds_max=seconds)) == set()
    late = {"age_seconds_max": seconds, "now": lambda: NOW + 1}
    finding = only(look(forge, policy=policy(), **late), "witnesses")
    assert finding.expected == f"a quorum no older than {said}"


def test_a_clock_may_be_a_little_ahead() -> None:
    ahead = NOW + AHEAD_SECONDS_MAX
    forge = cosigned(ledger(), w1=ahead, w2=ahead)
    assert failed(look(forge, policy=policy())) == set()
    assert failed(look(forge, policy=policy(), now=lambda: NOW - 1)) == {"witnesses"}


def test_what_came_nearest_to_the_quorum_is_named() -> None:
    forge = ledger()
    size = len(forge.rows)
    cosigned(forge, w1=NOW, w2=NOW)
    grown(forge)
    cosigned(forge, w1=NOW)
    finding = only(look(forge, policy=policy("all")), "witnesses")
    assert finding.found == f"size {size}: 2 of 3 witnesses, without w3"
    cosigned(forge, w3=NOW)  # of two that are as near the newer one
    finding = only(look(forge, policy=policy("all")), "witnesses")
    assert finding.found == f"size {len(forge.rows)}: 2 of 3 witnesses, without w2"


def test_a_policy_that_asks_for_no_cosignature_has_no_age() -> None:
    report = look(ledger(), policy=policy("none"))
    assert report["witnesses"].status == "PASS"
    assert "asks for no cosignature" in report["witnesses"].note
    finding = only(look(ledger(), policy=policy("none"), age_seconds_max=60), "witnesses")
    assert (finding.code, finding.found) == (UNVERIFIABLE, "no cosignature")


def test_a_cosignature_of_a_known_witness_that_does_not_hold_rejects_the_checkpoint() -> None:
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    assert failed(look(forge, policy=policy())) == set()
    row = forge.sealed[-1]
    wrong = cosign("another text\n", note_key("w3"), NOW, WITNESSES["w3"].sign)
    forge.sealed[-1] = replace(row, cosignatures=(*row.cosignatures, wrong.line.encode()))
    assert only(look(forge, policy=policy()), "witnesses").code == TAMPERED


def test_a_line_that_is_no_cosignature() -> None:
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    row = forge.sealed[-1]
    forge.sealed[-1] = replace(row, cosignatures=(*row.cosignatures, b"\xff\n"))
    assert only(look(forge, policy=policy()), "witnesses").code == TAMPERED


def test_a_policy_that_names_the_log_key_anchors() -> None:
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    report = look(forge, policy=policy(log=forge.keys["log"]))
    assert (report.code, failed(report)) == (INTACT, set())


def test_a_policy_that_names_another_key_for_the_log() -> None:
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    report = look(forge, policy=policy(log=Key("another")))
    assert only(report, "witnesses").code == FORKED
    assert report.anchored is False


def test_a_policy_that_names_other_logs_alone() -> None:
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    other = policy(log=Key("another"), origin="other.example")
    finding = only(look(forge, policy=other), "witnesses")
    assert (finding.code, finding.found) == (UNVERIFIABLE, "logs other.example")


def test_a_checkpoint_by_a_log_key_that_the_policy_does_not_name_is_not_its_own() -> None:
    forge = ledger()
    first = forge.keys["log"]
    forge.enrol("log")
    forge.seal()
    cosigned(forge, w1=NOW, w2=NOW)
    assert only(look(forge, policy=policy(log=first)), "witnesses").code == UNVERIFIABLE
    assert look(forge, policy=policy(log=forge.keys["log"])).code == INTACT


# ── witnesses that are asked ─────────────────────────────────────────────────────────────────────────

URL = "https://w1.example"


def test_a_witness_that_knows_what_the_ledger_has() -> None:
    forge = ledger()
    note = kept(forge)
    report = look(grown(forge), heard=[Heard(URL, note)])
    assert failed(report) == set()
    assert report["witnesses"].note.endswith(f"{URL} knows size {note.checkpoint.size}")
    assert "knows no checkpoint" in look(forge, heard=[Heard(URL)])["witnesses"].note


def test_a_witness_that_knows_more_than_the_ledger_has() -> None:
    forge = grown(ledger())
    finding = only(look(cut(forge, 3, sealed=True), heard=[Heard(URL, kept(forge))]), "witnesses")
    assert (finding.place, finding.code) == (URL, TRUNCATED)


def test_a_witness_that_knows_a_checkpoint_which_the_store_lost() -> None:
    forge = grown(ledger())
    note = kept(forge)
    forge.sealed.pop()
    assert only(look(forge, heard=[Heard(URL, note)]), "witnesses").code == TRUNCATED


def test_a_witness_that_was_shown_another_history() -> None:
    one, two = grown(ledger(), "T-2"), grown(ledger(), "T-3")
    report = look(two, heard=[Heard(URL, kept(one))])
    assert only(report, "witnesses").code == FORKED
    assert report.split_view is not None


def test_a_witness_that_knows_another_log_by_the_name() -> None:
    other = ledger("other")
    note = kept(other)
    heard = Heard(URL, note)
    assert only(look(ledger(), heard=[heard]), "witnesses").code == UNVERIFIABLE
    line = cosign(note.note.text, note_key("w1"), NOW, WITNESSES["w1"].sign)
    known = replace(note, note=replace(note.note, signatures=(*note.note.signatures, line)))
    forge = cosigned(ledger(), w1=NOW, w2=NOW)
    report = look(forge, heard=[Heard(URL, known)], policy=policy())
    assert only(report, "witnesses").code == FORKED


def test_a_witness_that_does_not_answer() -> None:
    finding = only(look(ledger(), heard=[Heard(URL, fault="no answer within 15 s")]), "witnesses")
    assert (finding.code, finding.found) == (UNVERIFIABLE, "no answer within 15 s")


def test_the_cosignature_of_a_witness_asked_counts() -> None:
    forge = cosigned(ledger(), w1=NOW)
    assert look(forge, policy=policy()).code == UNVERIFIABLE
    note = kept(forge)
    line = cosign(note.note.text, note_key("w2"), NOW, WITNESSES["w2"].sign)
    heard = replace(note, note=replace(note.note, signatures=(*note.note.signatures, line)))
    report = look(forge, policy=policy(), heard=[Heard(URL, heard)])
    assert failed(report) == set()
    assert "2 of 3 witnesses" in report["witnesses"].note


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────


def stamped(forge: Forge, *replies: bytes) -> Forge:
    forge.sealed[-1] = replace(forge.sealed[-1], timestamps=replies)
    return forge


def authority(reply: bytes, text: bytes) -> datetime:
    """An authority whose replies are the text and a time, in the clear."""
    about, _, seconds = reply.rpartition(b"@")
    if about != text:
        raise BadData("timestamp: another text")
    return datetime.fromtimestamp(int(seconds), UTC)


def test_timestamps_are_checked_by_the_certificates_that_are_given() -> None:
    forge = ledger()
    assert look(forge)["time"].note == "no timestamp on a checkpoint"
    text = kept(forge).note.text.encode()
    stamped(forge, text + b"@%d" % NOW)
    check = look(forge)["time"]
    assert (check.status, check.note) == (
        "NOT CHECKED",
        f"1 timestamp on size {len(forge.rows)}: --tsa-ca FILE",
    )
    report = look(forge, check_time=authority)
    assert (report["time"].status, report["time"].note) == (
        "PASS",
        f"size {len(forge.rows)} was there by "
        f"{datetime.fromtimestamp(NOW, UTC):%Y-%m-%d %H:%M:%S} UTC",
    )
    stamped(forge, b"other@5", text + b"@7", text + b"@9")
    note = look(forge, check_time=authority)["time"].note
    assert note.endswith("by 1970-01-01 00:00:07 UTC; 1 timestamp not by these authorities")


def test_a_timestamp_that_no_trusted_authority_made() -> None:
    forge = stamped(ledger(), b"other@5")
    finding = only(look(forge, check_time=authority), "time")
    assert (finding.code, finding.found) == (UNVERIFIABLE, "timestamp: another text")


# ── what has to pass ─────────────────────────────────────────────────────────────────────────────────

NOT_RUN: tuple[CheckName, ...] = ("tree", "consistency", "witnesses", "time", "projections")


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_required_check_that_was_not_run_has_failed(name: CheckName) -> None:
    report = look(Forge().found(), required={name})
    finding = only(report, name)
    assert (report.codes, finding.expected) == ([UNVERIFIABLE], "a check that was run")


def test_required_checks_that_pass() -> None:
    names = set(CHECKS) - set(NOT_RUN)
    assert look(Forge().found(), required=names).code == FIRST_LOOK


def test_a_policy_requires_witnesses() -> None:
    report = look(small_ledger(), policy=policy())
    assert (report.code, failed(report)) == (UNVERIFIABLE, {"witnesses"})


# ── from a pin ───────────────────────────────────────────────────────────────────────────────────────


def from_pin(forge: Forge | MemorySource, known: Pin, **against: Any) -> Report:
    return look(forge, pins=[known], from_pin=True, **against)


def test_from_a_pin_only_what_came_since_is_checked_in_full() -> None:
    forge = ledger()
    known = pin(forge)
    size = len(forge.rows)
    grown(forge)
    report = from_pin(forge, known)
    assert (report.code, failed(report)) == (INTACT, set())
    assert (report.records, report.streams) == (len(forge.rows), 5)
    assert report.from_pin == known
    before = f"the first {size} verified by 2026-11-29"
    for name in ("signatures", "roles", "chains", "law", "evidence"):
        assert report[name].earlier == before  # type: ignore[index]
    assert report["records"].earlier == f"{before}, hashed again"
    assert report["tree"].earlier == ""
    assert report["projections"].status == "NOT CHECKED"
    assert report["law"].note == "1 evaluation, 1 panel"
    full = look(forge, pins=[known])
    assert full.from_pin is None
    assert report.looked == full.looked
    assert all(check.earlier == "" for check in full.checks)


def test_from_a_pin_with_nothing_new() -> None:
    forge = ledger()
    report = from_pin(forge, pin(forge))
    assert (report.code, failed(report), report.records) == (INTACT, set(), len(forge.rows))


def test_from_a_pin_without_one_everything_is_checked() -> None:
    report = look(ledger(), from_pin=True)
    assert (report.code, report.from_pin) == (FIRST_LOOK, None)


@pytest.mark.parametrize("at", [0, 3, 7, -1])
def test_from_a_pin_a_byte_changed_before_it_is_found_and_named(at: int) -> None:
    forge = ledger()
    known = pin(forge)
    source = grown(forge).source()
    place = at if at >= 0 else known.seen.size - 1
    row = source.stored[place]
    source.stored[place] = row._replace(record=row.record.replace(b"2026-11-30", b"2026-11-29", 1))
    report = from_pin(source, known)
    assert report.from_pin is None  # everything was looked at
    assert {TAMPERED, FORKED} <= set(report.codes)
    assert f"{row.stream} v{row.version}" in [f.place for f in report["signatures"].findings]


def test_from_a_pin_a_tail_cut_below_it_is_found() -> None:
    forge = ledger()
    known = pin(forge)
    report = from_pin(cut(forge, 2), known)
    assert (report.code, report.from_pin) == (TRUNCATED, None)


def test_from_a_pin_another_history_is_found() -> None:
    known = pin(grown(ledger(), "T-2"))
    report = from_pin(grown(grown(ledger(), "T-3"), "T-4"), known)
    assert (report.code, report.from_pin) == (FORKED, None)


SINCE: dict[str, tuple[Callable[[Forge], object], CheckName]] = {
    "a-signature-that-does-not-hold": (
        lambda f: spoil(f, len(f.rows) - 2),
        "signatures",
    ),
    "a-key-that-nobody-enrolled": (
        lambda f: f.write("task/T-9", opened(), key=Key("nobody"), previous=founding(f)),
        "signatures",
    ),
    "a-key-of-another-role": (
        lambda f: f.write("task/T-9", opened(), key=f.keys["authority"], previous=founding(f)),
        "roles",
    ),
    "a-gap": (
        lambda f: f.write("task/T-1", opened(), version=90),
        "chains",
    ),
    "a-link-to-nothing": (
        lambda f: f.write("task/T-9", opened(), previous="0" * 64),
        "chains",
    ),
    "an-event-against-the-rules": (
        lambda f: f.write("task/T-1", opened()),
        "law",
    ),
    "evidence-missing": (
        lambda f: f.evidence.pop(list(f.evidence)[-1]),
        "evidence",
    ),
}


def opened() -> Any:
    return TaskOpened(task="T-9", spec=None)


def founding(forge: Forge) -> str:
    return digest(forge.rows[0].record)


def spoil(forge: Forge, place: int) -> None:
    row = forge.rows[place]
    forge.rows[place] = row._replace(record=row.record.replace(b"2026-11-30", b"2026-11-29", 1))


@pytest.mark.parametrize(("act", "name"), SINCE.values(), ids=SINCE.keys())
def test_from_a_pin_what_came_since_is_held_to_everything(
    act: Callable[[Forge], object], name: CheckName
) -> None:
    forge = ledger()
    known = pin(forge)
    forge.open_task("T-2")
    forge.panel("T-2", {"a": [reads("b.py"), verdict("pass")]})
    assert failed(from_pin(forge, known)) == set()
    act(forge)
    report = from_pin(forge, known)
    assert report.from_pin == known
    assert name in failed(report)
    assert {f.place for f in report.findings} == {
        f.place for f in look(forge, pins=[known]).findings
    }


def test_from_a_pin_a_task_goes_on_from_what_was_known_of_it() -> None:
    """A panel that was open at the pin is decided since, over evaluations from before it."""
    forge = Forge().found()
    forge.open_task("T-0")
    forge.panel("T-0", {"a": [verdict("pass")]})
    forge.open_task("T-1")
    judges = {"a": [reads("a.py"), verdict("pass")], "b": [reads("a.py")]}
    forge.panel("T-1", judges)  # b's runner is gone
    known = pin(forge)
    forge.interrupt("T-1", 1, "post_execute", "b")
    report = from_pin(forge, known)
    assert (report.code, failed(report)) == (INTACT, set())
    assert report.open_evaluations == ()
    # What b was told to do was recorded before the pin: an answer that does not follow from it is found.
    forge.write("evaluation/T-1/1/post_execute/a", opened_again(forge))
    report = from_pin(forge, known)
    assert failed(report) == {"law"}


def opened_again(forge: Forge) -> Any:
    row = forge.rows[forge.at("evaluation/T-1/1/post_execute/a", 1)]
    return event_from(row.type, document(row)["data"])


def test_from_a_pin_another_attempt_at_a_task_that_was_halted() -> None:
    forge = small_ledger()
    known = pin(forge)
    forge.start_attempt("T-1", 2)
    forge.panel("T-1", {"a": [verdict("pass")]}, attempt=2)
    report = from_pin(forge, known)
    assert (report.from_pin, report.code, failed(report)) == (known, INTACT, set())


def test_from_a_pin_in_a_longer_log_the_very_next_record_is_checked() -> None:
    forge = long_ledger(9)
    assert len(forge.rows) > 512
    known = pin(forge)
    grown(forge, "T-new")
    assert failed(from_pin(forge, known)) == set()
    spoil(forge, known.seen.size)
    report = from_pin(forge, known)
    row = forge.rows[known.seen.size]
    assert report.from_pin == known
    assert [f.place for f in report["signatures"].findings] == [f"{row.stream} v{row.version}"]


def test_from_a_pin_an_erasure_since_is_held_against_what_was_there() -> None:
    forge = grown(ledger())
    known = pin(forge)
    forge.erase("T-1")
    report = from_pin(forge, known)
    assert (report.code, failed(report)) == (INTACT, set())
    known = pin(forge)
    grown(forge, "T-3")
    report = from_pin(forge, known)  # the erasure lies before it, of a task that did not go on
    assert (report.code, failed(report)) == (INTACT, set())


def test_from_a_pin_an_erasure_since_that_claims_too_much_is_found() -> None:
    forge = ledger()
    known = pin(forge)
    claim = {"stream": "task/T-1", "version": 99}
    said = {"task": "T-1", "name": "Ada", "reason": "asked for", "count": 0, "streams": [claim]}
    forge.write("ledger", EvidenceErased.model_validate(said))
    report = from_pin(forge, known)
    assert (report.from_pin, failed(report)) == (known, {"evidence"})
    assert report.findings == look(forge, pins=[known]).findings


def test_from_a_pin_a_key_enrolled_since_signs() -> None:
    forge = ledger()
    known = pin(forge)
    forge.enrol("engine")
    grown(forge)
    report = from_pin(forge, known)
    assert (report.from_pin, failed(report)) == (known, set())


def test_from_a_pin_keys_enrolled_and_ended_before_it_are_known() -> None:
    forge = ledger()
    first, size = forge.keys["engine"], len(forge.rows)
    forge.enrol("engine")
    forge.retire(first, size)
    known = pin(forge)
    grown(forge)
    assert failed(from_pin(forge, known)) == set()
    forge.write("task/T-9", opened(), key=first)
    assert "roles" in failed(from_pin(forge, known))


def test_a_look_knows_what_a_later_one_is_held_against() -> None:
    forge = ledger()
    own = [row for row in forge.rows if row.stream == "ledger"]
    newest = SignedCheckpoint.parse(forge.sealed[-1].note)
    assert verify(forge.source()).looked == Looked(
        origin=forge.origin,
        founding=founding(forge),
        root_key=forge.keys["root"].text,
        ledger_version=4,
        ledger_digest=digest(own[-1].record),
        size=len(forge.rows),
        root=newest.checkpoint.root,
        checkpoint=newest,
        checkpoints=1,
    )
