"""The protocol: what a file says, and how an error names file, judge, key, expected and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from causebook.adapters.protocol import PROTOCOL_BYTES_MAX, Protocol, load_protocol
from causebook.domain.errors import BadData, CausebookError, Misuse, NoInput
from causebook.domain.tools import READ_TOOLS

HEAD = 'policy = "quorum"\nphase = "pre_execute"\n'
JUDGE = '[[judge]]\nid = "security"\nmodel = "script:answers/s.jsonl"\ncriteria = ["Sound.", "Tested."]\n'
WHOLE = HEAD + JUDGE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str | bytes) -> Protocol:
    Path("p.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_protocol("p.toml")


def error(text: str | bytes) -> CausebookError:
    with pytest.raises(BadData) as caught:
        load(text)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_whole_protocol() -> None:
    more = '[[judge]]\nid = "b"\nmodel = "openai/gpt-4o"\ncriteria = ["x"]\n'
    more += "tools = []\nmax_tool_turns = 200\n"
    protocol = load("timeout_seconds = 2.5\n" + WHOLE + more)
    assert (protocol.policy, protocol.phase, protocol.timeout_seconds) == (
        "quorum",
        "pre_execute",
        2.5,
    )
    first, second = protocol.judges
    assert (first.id, first.model) == ("security", "script:answers/s.jsonl")
    assert tuple(first.criteria) == ("Sound.", "Tested.")
    assert (tuple(first.tools), first.max_tool_turns) == (tuple(READ_TOOLS), 20)
    assert (tuple(second.tools), second.max_tool_turns) == ((), 200)


def test_scripts_lie_beside_the_protocol_and_are_recorded_as_written(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "p.toml").write_text(WHOLE)
    protocol = load_protocol(folder / "p.toml")
    assert protocol.paths == {"security": f"script:{folder}/answers/s.jsonl"}
    assert protocol.judges[0].model == "script:answers/s.jsonl"


def test_another_model_for_one_judge() -> None:
    changed = load(WHOLE).with_models({"security": "script:other.jsonl"})
    assert changed.paths == {"security": "script:other.jsonl"}
    assert changed.judges[0].model == "script:other.jsonl"
    with pytest.raises(Misuse, match="found 'nobody'"):
        load(WHOLE).with_models({"nobody": "x"})
    with pytest.raises(Misuse, match="model"):
        load(WHOLE).with_models({"security": "x" * 513})


def test_the_phase_may_be_left_open() -> None:
    assert load(WHOLE.replace('phase = "pre_execute"\n', "")).phase is None


def test_a_mark_at_the_beginning_is_no_matter() -> None:
    assert load(b"\xef\xbb\xbf" + WHOLE.encode()).policy == "quorum"


CASES = {
    "unknown_key": ("x = 1\n" + WHOLE, "p.toml: expected only known keys, found 'x'"),
    "unknown_judge_key": (
        WHOLE + "n = 1\n",
        "p.toml, judge 1: expected only known keys, found 'n'",
    ),
    "no_policy": (
        WHOLE.replace('policy = "quorum"\n', ""),
        "p.toml, policy: expected unanimous or",
    ),
    "unknown_policy": (WHOLE.replace("quorum", "most"), "p.toml, policy: expected unanimous or"),
    "policy_number": ("policy = 1\n" + JUDGE, "found 1"),
    "unknown_phase": (WHOLE.replace("pre_", "mid_"), "p.toml, phase: expected pre_execute or"),
    "no_judges": (HEAD, "p.toml, judge: expected 1 to 32 tables [[judge]], found 0"),
    "judges_33": (HEAD + JUDGE * 33, "found 33"),
    "judge_table": (HEAD + JUDGE.replace("[[judge]]", "[judge]"), "found a table"),
    "judge_text": (HEAD + 'judge = "x"\n', "found 'x'"),
    "judge_numbers": (HEAD + "judge = [1]\n", "found a list"),
    "two_of_one_id": (WHOLE + JUDGE, "p.toml, judge 2, id: expected another id, found security"),
    "id_missing": (
        WHOLE.replace('id = "security"\n', ""),
        "judge 1, id: expected text that is not",
    ),
    "id_slash": (WHOLE.replace('"security"', '"a/b"'), "judge 1, judge id: expected 1 to 128"),
    "id_newline": (WHOLE.replace('"security"', '"a\\nb"'), "found 'a\\nb'"),
    "model_missing": (HEAD + '[[judge]]\nid = "a"\ncriteria = ["x"]\n', "judge 1, model: expected"),
    "model_long": (
        WHOLE.replace("script:", "m" * 600),
        "judge 1, model: expected a name of 1 to 512",
    ),
    "criteria_missing": (
        HEAD + '[[judge]]\nid = "a"\nmodel = "m"\n',
        "criteria: expected a list of",
    ),
    "criteria_empty": (WHOLE.replace('["Sound.", "Tested."]', "[]"), "found an empty list"),
    "criteria_blank": (WHOLE.replace('"Tested."', '" "'), "judge 1, criteria, item 2: expected"),
    "criteria_text": (WHOLE.replace('["Sound.", "Tested."]', '"Sound."'), "found 'Sound.'"),
    "criteria_long": (
        WHOLE.replace("Sound.", "s" * 20_000),
        "criteria: expected at most 16384 bytes",
    ),
    "tool_unknown": (WHOLE + 'tools = ["rm"]\n', "judge 1, tools: expected read tools, found 'rm'"),
    "tool_submit": (WHOLE + 'tools = ["submit_verdict"]\n', "found 'submit_verdict'"),
    "tool_twice": (
        WHOLE + 'tools = ["git_log", "git_log"]\n',
        "judge 1, tools: expected each once",
    ),
    "tools_text": (WHOLE + 'tools = "git_log"\n', "tools: expected a list of read tools"),
    "turns_0": (
        WHOLE + "max_tool_turns = 0\n",
        "judge 1, max_tool_turns: expected 1 to 200, found 0",
    ),
    "turns_201": (WHOLE + "max_tool_turns = 201\n", "expected 1 to 200, found 201"),
    "turns_true": (WHOLE + "max_tool_turns = true\n", "expected 1 to 200, found true"),
    "turns_float": (WHOLE + "max_tool_turns = 2.0\n", "expected 1 to 200, found 2.0"),
    "turns_text": (WHOLE + 'max_tool_turns = "20"\n', "found '20'"),
    "turns_huge": (WHOLE + f"max_tool_turns = {10**40}\n", "found a number beyond that"),
    "turns_date": (WHOLE + "max_tool_turns = 2020-01-01\n", "found a date or time"),
    "timeout_0": ("timeout_seconds = 0\n" + WHOLE, "p.toml, timeout_seconds: expected seconds"),
    "timeout_inf": ("timeout_seconds = inf\n" + WHOLE, "timeout_seconds"),
    "timeout_nan": ("timeout_seconds = nan\n" + WHOLE, "timeout_seconds"),
    "timeout_true": ("timeout_seconds = true\n" + WHOLE, "found true"),
    "not_toml": (WHOLE + "= 1\n", "p.toml, line 7, column 1: expected TOML, found:"),
    "cut_short": (HEAD + '[[judge]]\nid = "', "p.toml"),
    "key_twice": ('policy = "any"\n' + WHOLE, "p.toml, line 2, column 18: expected TOML"),
    "not_utf_8": (HEAD.encode() + b"# \xff\n", "p.toml, line 3: expected UTF-8, found byte 0xff"),
    "null_bytes": (b"\0" * 10, "p.toml, line 1"),
    "nested": ("x = " + "[" * 100_000, "p.toml"),
    "digits": (HEAD + "x = " + "9" * 5000, "p.toml"),
    "too_long": (
        "#" * (PROTOCOL_BYTES_MAX + 1),
        "p.toml: expected a protocol, at most 1,048,576 bytes",
    ),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES)
def test_what_does_not_hold_is_named(text: str | bytes, message: str) -> None:
    assert message in error(text).message


def test_the_example_of_the_screens() -> None:
    judge_2 = JUDGE.replace("security", "two") + "max_tool_turns = 0\n"
    caught = error(WHOLE + judge_2)
    assert caught.message == "p.toml, judge 2, max_tool_turns: expected 1 to 200, found 0"
    assert caught.hint == "the default is 20; a judge with no tools decides on its first turn"


@pytest.mark.parametrize("name", ["gone.toml", ".", "a\0b", "p.toml/x"])
def test_a_file_that_is_none(name: str) -> None:
    Path("p.toml").write_text(WHOLE)
    with pytest.raises(NoInput) as caught:
        load_protocol(name)
    assert caught.value.hint
