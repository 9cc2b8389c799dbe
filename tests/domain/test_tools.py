"""The tools a judge may be offered, as the design lists them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causebook.domain.tools import (
    READ_TOOLS,
    SUBMIT_VERDICT,
    active,
    definition,
    definitions_digest,
)

from .account import NEEDED, SIGNATURES

ALL = ("submit_verdict", *READ_TOOLS)


def test_the_tools_their_arguments_and_their_defaults_are_those_of_the_design() -> None:
    assert {
        name: [(a.name, a.default) for a in tool.arguments] for name, tool in READ_TOOLS.items()
    } == {
        "read_file": [("path", None)],
        "read_file_lines": [("path", None), ("start", None), ("end", None)],
        "list_files": [("directory", ".")],
        "summarize_directory": [("directory", ".")],
        "git_show": [("ref", None), ("path", None)],
        "git_log": [("n", 5)],
        "read_diff_between_refs": [("ref1", None), ("ref2", None)],
    }
    assert SUBMIT_VERDICT not in READ_TOOLS


def test_the_difference_between_refs_is_for_finished_work_alone() -> None:
    assert active(READ_TOOLS, "post_execute") == tuple(READ_TOOLS)
    assert set(active(READ_TOOLS, "pre_execute")) == set(READ_TOOLS) - {"read_diff_between_refs"}
    assert active(("git_log", "read_file"), "pre_execute") == ("git_log", "read_file")


@pytest.mark.parametrize("name", ALL)
def test_a_definition_is_what_the_chat_api_takes(name: str) -> None:
    said = definition(name)
    assert said["type"] == "function"
    function = said["function"]
    assert function["name"] == name
    assert function["description"]
    parameters = function["parameters"]
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert set(parameters["required"]) <= set(parameters["properties"])
    for schema in parameters["properties"].values():
        assert schema["description"]
        assert schema["type"] in ("string", "integer")


def test_the_definitions_say_what_the_check_holds() -> None:
    for name, signature in SIGNATURES.items():
        parameters = definition(name)["function"]["parameters"]
        assert list(parameters["properties"]) == list(signature)
        for argument, (kind, left_out, least, most) in signature.items():
            schema = parameters["properties"][argument]
            assert (argument in parameters["required"]) == (left_out is NEEDED)
            assert schema.get("default", NEEDED) == left_out
            if kind == "number":
                assert (schema["minimum"], schema["maximum"]) == (least, most)


def test_a_verdict_has_three_severities_and_needs_both_fields() -> None:
    parameters = definition(SUBMIT_VERDICT)["function"]["parameters"]
    assert parameters["properties"]["severity"]["enum"] == ["pass", "warn", "blocker"]
    assert parameters["required"] == ["severity", "justification"]


def test_the_digest_is_over_the_definitions_in_order() -> None:
    names = ("read_file", "submit_verdict")
    text = json.dumps(
        [definition(n) for n in names], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert definitions_digest(names) == hashlib.sha256(text.encode()).hexdigest()
    assert definitions_digest(names[::-1]) != definitions_digest(names)


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, "a.py", "", ".", 0, 1, 5, 100, 101, 10_000_001, 1.0, [], {}]
)


@given(
    name=st.sampled_from(sorted(READ_TOOLS)),
    given_=st.dictionaries(
        st.sampled_from(["path", "start", "end", "directory", "ref", "n", "ref1", "ref2", "x"]),
        VALUES,
        max_size=4,
    ),
)
def test_arguments_fit_where_each_is_known_of_its_kind_and_none_is_missing(
    name: str, given_: dict[str, Any]
) -> None:
    signature = SIGNATURES[name]
    fits = set(given_) <= set(signature)
    for argument, (kind, left_out, least, most) in signature.items():
        value = given_.get(argument)
        if value is None:
            fits = fits and left_out is not NEEDED
        elif kind == "number":
            fits = fits and type(value) is int and least <= value <= most
        else:
            fits = fits and isinstance(value, str)
    misfit = READ_TOOLS[name].misfit(given_)
    assert (misfit is None) == fits
    for value in given_.values():
        if isinstance(value, str) and len(value) > 1:  # the words are ours alone
            assert value not in (misfit or "")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {}, "path: required"),
        ("read_file", {"path": None}, "path: required"),
        ("read_file", {"path": 1}, "path: expected a string"),
        ("read_file", {"path": "a", "<script>": 1}, "an argument that this tool does not take"),
        ("git_log", {"n": "5"}, "n: expected an integer"),
        ("git_log", {"n": True}, "n: expected an integer"),
        ("git_log", {"n": 5.0}, "n: expected an integer"),
        ("git_log", {"n": 0}, "n: expected at least 1"),
        ("git_log", {"n": 101}, "n: expected at most 100"),
    ],
)
def test_a_misfit_is_told_in_a_few_fixed_words(
    name: str, arguments: dict[str, Any], words: str
) -> None:
    assert READ_TOOLS[name].misfit(arguments) == words
