"""The halt payload: its schema, its golden file, and the numbers of every way a task can stand."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]
import pytest

from causebook.domain.canonical import encode
from causebook.domain.events import HaltType, Outcome, RawHaltType
from causebook.projections.halt_payload import halt_payload

from .halts import BLOCKER, PASS, PROSE, SCENARIOS, WARN
from .ledgers import Book, example, verdict

GOLDEN = Path(__file__).parent / "golden" / "halt_payload_T-104.json"
SCHEMA = json.loads(
    resources.files("causebook.projections").joinpath("halt_payload.schema.json").read_bytes()
)


def payload_of(scenario: str) -> dict[str, Any]:
    book = Book()
    SCENARIOS[scenario](book)
    return halt_payload(book.facts("T"))


def evidence_of(payload: dict[str, Any]) -> list[str]:
    return [f"{item['stream']} v{item['version']}" for item in payload["evidence"]]


def valid(payload: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(json.loads(encode(payload))))


def objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("type") == "object" else []
    return own + [found for item in schema.values() for found in objects(item)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_payload_holds_to_the_schema(scenario: str) -> None:
    payload = payload_of(scenario)
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(encode(payload)))
    assert payload["final_decision"] == payload["halt_type"]
    assert (payload["halt_type"] is not None) == (payload["status"] == "blocked")


def test_the_schema_is_strict_and_knows_the_closed_vocabularies() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for found in objects(SCHEMA):
        assert found["additionalProperties"] is False
        assert sorted(found["required"]) == sorted(found["properties"])
    kinds = SCHEMA["$defs"]
    assert kinds["halt_type"]["enum"] == list(get_args(HaltType))
    assert kinds["raw_halt_type"]["enum"] == list(get_args(RawHaltType))
    history = kinds["attempts"]["properties"]["history"]["items"]["properties"]
    assert history["outcome"]["enum"] == list(get_args(Outcome))


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"status": "halted"},
        {"status": "open"},
        {"halt_type": None},
        {"reason": None},
        {"evidence": []},
        {"phase": "after"},
        {"attempt": 0},
        {"task_id": "a/b"},
    ],
    ids=str,
)
def test_the_schema_refuses(change: dict[str, Any]) -> None:
    payload = payload_of("blocked")
    assert valid(payload)
    assert not valid(payload | change)


def test_the_schema_refuses_a_result_without_a_verdict() -> None:
    payload = payload_of("no_verdict")
    result = payload["validator_results"][1]
    assert (result["error"], result["severity"]) == (True, "blocker")
    for severity in (None, "error", "warn"):
        result["severity"] = severity
        assert not valid(payload)


def test_golden_payload_of_the_example() -> None:
    """The bytes of the example of the documentation; they change only with VERSION."""
    book = Book()
    example(book)
    assert encode(halt_payload(book.facts("T-104"))) == encode(json.loads(GOLDEN.read_bytes()))


def test_the_example_comes_to_the_numbers_that_were_counted_by_hand() -> None:
    payload = payload_of("example")
    assert [
        (r["judge"], r["severity"], r["error"], r["turns_used"], r["turns"])
        for r in payload["validator_results"]
    ] == [
        ("conventions", "pass", False, 3, 3),
        ("testing", "warn", False, 4, 4),
        ("security", "blocker", False, 3, 6),
        ("architecture", "blocker", True, 3, 3),
    ]
    assert payload["policy_decision"] == {
        "policy": "unanimous",
        "action": "halt",
        "pass": 1,
        "warn": 1,
        "blocker": 2,
        "total": 4,
        "required": 4,
    }
    assert payload["status"] == "blocked"
    assert payload["raw_halt_type"] == "validator_error"
    assert payload["blocker_validators"] == ["security", "architecture"]
    assert evidence_of(payload) == ["task/T v4", "evaluation/T/1/post_execute/architecture v15"]
    security = payload["validator_results"][2]
    assert [(e["turn"], e["target"], e["disposition"]) for e in security["examined"]] == [
        (1, "src/app.py", "answered"),
        (2, "src/auth.py", "answered"),
        (3, "src/auth.py", "repeat"),
        (4, "src/app.py", "repeat"),
        (5, "src/app.py:3-9", "repeat"),
    ]


@pytest.mark.parametrize(
    ("scenario", "status", "halt_type", "phase", "outcomes"),
    [
        ("opened", "open", None, None, []),
        ("started", "open", None, None, []),
        ("sitting", "open", None, "pre_execute", []),
        ("all_pass", "completed", None, "post_execute", ["passed"]),
        ("warn_is_logged", "completed", None, "post_execute", ["warned"]),
        ("escalated", "blocked", "escalate", "post_execute", []),
        ("resolved_proceed", "completed", None, "post_execute", ["warned"]),
        ("resolved_halt", "blocked", "escalate", "post_execute", ["warned"]),
        ("resolved_reject", "blocked", "escalate", "post_execute", ["warned"]),
        ("blocked", "blocked", "blocker", "post_execute", ["blocked"]),
        ("no_verdict", "blocked", "validator_error", "post_execute", ["error"]),
        ("provider_fault", "blocked", "validator_error", "post_execute", ["error"]),
        ("tool_choice_declined", "completed", None, "post_execute", ["passed"]),
        ("interrupted", "blocked", "validator_error", "post_execute", ["error"]),
        ("both_phases", "completed", None, "post_execute", ["warned"]),
        ("engine", "blocked", "environment_error", None, ["error"]),
        ("engine_after_panel", "blocked", "blocker", "post_execute", ["blocked"]),
        ("attempts", "completed", None, "post_execute", ["blocked", "error", "error", "warned"]),
        ("again", "open", None, None, ["blocked"]),
    ],
)
def test_how_a_task_stands(
    scenario: str, status: str, halt_type: str | None, phase: str | None, outcomes: list[str]
) -> None:
    payload = payload_of(scenario)
    assert (payload["status"], payload["halt_type"], payload["phase"]) == (status, halt_type, phase)
    assert [item["outcome"] for item in payload["attempts"]["history"]] == outcomes


@pytest.mark.parametrize(
    ("scenario", "evidence"),
    [
        ("sitting", []),
        ("all_pass", ["task/T v4", "one v9", "two v9"]),
        ("escalated", ["task/T v4", "one v9", "two v5"]),
        ("resolved_halt", ["task/T v4", "one v9", "two v5", "task/T v6"]),
        ("blocked", ["task/T v4", "two v5"]),
        ("no_verdict", ["task/T v4", "two v11"]),
        ("provider_fault", ["task/T v4", "one v10"]),
        ("interrupted", ["task/T v4", "midway v6", "unheard v2"]),
        ("both_phases", ["task/T v8", "one v9", "two v9"]),
        ("engine", ["task/T v6"]),
        ("engine_after_panel", ["task/T v5"]),
        ("again", []),
    ],
)
def test_evidence_is_the_smallest_set_that_carries_the_decision(
    scenario: str, evidence: list[str]
) -> None:
    """Errors alone where any erred, blockers alone where any blocked, else every ballot."""
    found = evidence_of(payload_of(scenario))
    assert [place.removeprefix("evaluation/T/1/post_execute/") for place in found] == evidence


def test_evidence_names_records_that_are_there() -> None:
    for make in SCENARIOS.values():
        book = Book()
        make(book)
        facts = book.facts("T")
        stored = {
            (entry.record.stream, entry.record.version, entry.record.digest)
            for entries in (facts.own, *facts.evaluations.values())
            for entry in entries
        }
        for item in halt_payload(facts)["evidence"]:
            assert (item["stream"], item["version"], item["digest"]) in stored


def test_a_panel_that_sits_shows_the_judges_that_closed_and_no_verdict_for_the_others() -> None:
    payload = payload_of("sitting")
    assert [result["judge"] for result in payload["validator_results"]] == ["closed", "failed"]
    assert payload["blocker_validators"] == ["failed"]
    assert payload["policy_decision"] is None


def test_an_interrupted_judge_keeps_what_it_examined() -> None:
    done, midway, unheard = payload_of("interrupted")["validator_results"]
    assert (done["error"], midway["error"], unheard["error"]) == (False, True, True)
    assert [look["target"] for look in midway["examined"]] == ["a.py"]
    assert (midway["turns"], midway["turns_used"]) == (1, 1)
    assert (unheard["turns"], unheard["turns_used"], unheard["examined"]) == (0, 0, [])


def test_a_provider_fault_is_a_turn_that_is_not_charged() -> None:
    faulty = payload_of("provider_fault")["validator_results"][0]
    assert (faulty["turns"], faulty["turns_used"], faulty["error"]) == (2, 1, True)


def test_a_resolution_stands_with_the_panel_it_answers() -> None:
    answered = payload_of("resolved_reject")["resolution"]
    assert (answered["decision"], answered["name"], answered["keyid"]) == (
        "reject",
        "Ada Example",
        "a" * 64,
    )
    assert payload_of("both_phases")["resolution"] is None


def test_coder_dispatches_are_counted_over_all_attempts() -> None:
    assert payload_of("attempts")["attempts"]["coder_dispatches"] == 3
    assert payload_of("attempts")["attempts"]["total"] == 4
    assert payload_of("started")["attempts"] == {
        "total": 1,
        "coder_dispatches": 2,
        "history": [],
    }


def test_an_error_among_blockers_is_the_halt_and_its_evidence() -> None:
    book = Book()
    task = book.task("T")
    task.attempt()
    task.panel(
        "post_execute", "quorum", {"a": BLOCKER, "b": PROSE, "c": WARN, "d": PASS, "e": PROSE}
    )
    payload = halt_payload(book.facts("T"))
    assert payload["halt_type"] == "validator_error"
    assert payload["blocker_validators"] == ["a", "b", "e"]
    assert [item["stream"].split("/")[-1] for item in payload["evidence"]] == ["T", "b", "e"]


def test_a_panel_open_in_the_second_phase_is_not_shown_with_the_decision_of_the_first() -> None:
    book = Book()
    task = book.task("T")
    task.attempt()
    task.panel("pre_execute", "any", {"a": PASS})
    task.convene("post_execute", "any", ["a"])
    payload = halt_payload(book.facts("T"))
    assert payload["phase"] == "post_execute"
    assert (payload["policy_decision"], payload["validator_results"]) == (None, [])
    task.hear("a", [[verdict("warn")]])
    assert len(halt_payload(book.facts("T"))["validator_results"]) == 1
