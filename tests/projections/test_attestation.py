"""The statement of a panel's decision: what it says, of what, and that it has one spelling."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.adapters.handover.sealed_log import sealed_log
from causebook.domain.canonical import decode, encode
from causebook.domain.events import PanelDecided, WorkspaceFacts
from causebook.domain.proof import InclusionProof
from causebook.projections.attestation import (
    LATER,
    PREDICATE_TYPE,
    AttestationError,
    read_statement,
    statement,
    subject_of,
)
from causebook.projections.facts import Entry, read_stream
from tests.adapters.bundles import sealed_ledger

COMMIT, TREE = "c" * 40, "d" * 64


def stated() -> bytes:
    forge = sealed_ledger("T-1")
    log = sealed_log(forge.source())
    index = forge.at("task/T-1", forge.last("task/T-1", "PanelDecided"))
    rows = [row.record for row in forge.rows if row.stream == "task/T-1"]
    entry = next(e for e in read_stream("task/T-1", rows) if isinstance(e.event, PanelDecided))
    proof = InclusionProof(index, log.view.inclusion(index), log.checkpoint, entry.record.line)
    proof = replace(proof, extra=forge.rows[index].record)
    subject = subject_of("T-1", WorkspaceFacts(commit=COMMIT, tree=None, dirty=False))
    assert subject is not None
    decided = cast("Entry[PanelDecided]", entry)
    return statement(forge.origin, log.ledger.founding, "T-1", decided, proof, subject)


STATED = stated()


def test_it_is_an_in_toto_statement_of_one_decision() -> None:
    said = decode(STATED)
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == PREDICATE_TYPE
    assert said["subject"] == [{"digest": {"gitCommit": COMMIT}, "name": "T-1: the commit judged"}]
    predicate = said["predicate"]
    assert (predicate["outcome"], predicate["attempt"], predicate["phase"]) == (
        "halt",
        1,
        "post_execute",
    )
    assert predicate["counts"] == {"blocker": 1, "pass": 1, "total": 2, "warn": 0}
    assert predicate["later"] == LATER
    assert "later attempt" in LATER


def test_it_is_read_back() -> None:
    decision = read_statement(STATED)
    predicate = decode(STATED)["predicate"]
    assert (decision.task, decision.decided) == ("T-1", predicate["decided"])
    assert decision.proof.index == decision.index
    assert decision.said == {name: predicate[name] for name in decision.said}
    assert len(decision.said) == 7


@pytest.mark.parametrize(
    ("facts", "digest", "named"),
    [
        (
            WorkspaceFacts(commit=COMMIT, tree=None, dirty=False),
            {"gitCommit": COMMIT},
            "the commit",
        ),
        (WorkspaceFacts(commit=COMMIT, tree=TREE, dirty=True), {"sha256": TREE}, "manifest"),
        (WorkspaceFacts(commit=None, tree=TREE, dirty=False), {"sha256": TREE}, "manifest"),
    ],
)
def test_the_subject_is_what_the_judges_read(
    facts: WorkspaceFacts, digest: dict[str, str], named: str
) -> None:
    subject = subject_of("T-1", facts)
    assert subject is not None
    assert subject["digest"] == digest
    assert named in subject["name"]
    assert (COMMIT in subject["name"]) is facts.dirty


def test_without_a_working_tree_there_is_no_subject() -> None:
    assert subject_of("T-1", None) is None
    assert subject_of("T-1", WorkspaceFacts(commit=None, tree=None, dirty=False)) is None


def changed(change: Callable[[Any], Any]) -> bytes:
    said = decode(STATED)
    change(said)
    return encode(said)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (STATED + b"\n", "not canonical"),
        (changed(lambda d: d.update(_type="https://in-toto.io/Statement/v0.1")), "expected https"),
        (
            changed(lambda d: d.update(predicateType="https://slsa.dev/provenance/v1")),
            "expected https",
        ),
        (changed(lambda d: d["subject"][0].pop("name")), "digest, name"),
        (changed(lambda d: d["subject"][0].update(name="")), "a text"),
        (changed(lambda d: d["subject"][0].update(digest={})), "exactly one"),
        (changed(lambda d: d["subject"][0]["digest"].update(gitCommit="C" * 40)), "in hex"),
        (changed(lambda d: d["subject"][0].update(digest={"md5": "c" * 32})), "in hex"),
        (changed(lambda d: d["predicate"].pop("later")), "exactly the keys"),
        (changed(lambda d: d["predicate"].update(later="")), "a later one may differ"),
        (changed(lambda d: d["predicate"].update(index="7")), "an index"),
        (changed(lambda d: d["predicate"].update(proof="x")), "proof"),
        (changed(lambda d: d["predicate"].update(task=7)), "expected strings"),
        (changed(lambda d: d["predicate"].update(ledger="a b")), "an origin"),
        (changed(lambda d: d["subject"].append({})), "exactly one"),
        (changed(lambda d: d.update(subject=[])), "exactly one"),
    ],
)
def test_what_is_no_statement(payload: bytes, told: str) -> None:
    with pytest.raises(AttestationError, match=told):
        read_statement(payload)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_statement_or_a_named_error(payload: bytes) -> None:
    with suppress(AttestationError):
        read_statement(payload)
