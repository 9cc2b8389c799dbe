"""Answers from a file: every line is read as a live answer is, and a wrong file says where and why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.models.choose import model_for
from causebook.adapters.models.litellm_model import LiteLLMModel
from causebook.adapters.models.script import ScriptedModel
from causebook.domain.errors import BadData, CausebookError, Misuse, NoInput
from causebook.domain.ports import ModelFault, Request, ToolCall

FREE = Request("script:x", (), (), None)
FORCED = Request("script:x", (), (), "submit_verdict")


def script(folder: Path, *lines: Any, end: str = "\n") -> ScriptedModel:
    path = folder / "answers.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(end.join(texts).encode())
    return ScriptedModel(path)


def test_lines_answer_in_order_and_then_end(tmp_path: Path) -> None:
    call = {"id": "c", "function": {"name": "read_file", "arguments": '{"path":"a"}'}}
    model = script(
        tmp_path,
        {"role": "assistant", "content": "thinking", "tool_calls": [call]},
        {"role": "assistant", "content": "done"},
    )
    first = model.complete(FREE)
    assert first.content == "thinking"
    assert first.calls == (ToolCall("c", "read_file", '{"path":"a"}'),)
    assert (first.model, first.client, first.milliseconds) == ("script", "script", 0)
    assert first.client_version
    assert not first.tool_choice_sent
    assert model.complete(FORCED).tool_choice_sent
    with pytest.raises(ModelFault) as caught:
        model.complete(FREE)
    assert caught.value.error == "script_exhausted"
    assert not caught.value.retryable


def test_two_models_of_one_file_each_begin_at_its_beginning(tmp_path: Path) -> None:
    one = script(tmp_path, {"content": "1"}, {"content": "2"})
    assert one.complete(FREE).content == "1"
    assert ScriptedModel(tmp_path / "answers.jsonl").complete(FREE).content == "1"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_mark_line_ends_blank_lines_and_separators_are_no_obstacle(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "a.jsonl"
    odd = "a\u2028b\u2029c\x85d\x0be"
    lines = [
        "",
        '{"content":"' + odd.replace("\x0b", "\\u000b") + '"}',
        "  ",
        '{"content":"2"}',
        "",
    ]
    path.write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())
    model = ScriptedModel(path)
    assert model.complete(FREE).content == odd
    assert model.complete(FREE).content == "2"
    with pytest.raises(ModelFault, match="script_exhausted"):
        model.complete(FREE)


def test_a_line_of_two_megabytes_a_lone_surrogate_and_a_null_byte(tmp_path: Path) -> None:
    long = "é" * 1_000_000
    model = script(tmp_path, {"content": long}, r'{"content":"\ud800 \u0000"}')
    assert model.complete(FREE).content == long
    assert model.complete(FREE).content == "\ud800 \0"


def test_an_empty_script_is_exhausted_at_once(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match="script_exhausted"):
        script(tmp_path, "").complete(FREE)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"status": 429, "retry_after": 1.5}, ("rate_limit", 429, 1_500, True)),
        ({"status": 429, "type": "rate_limit", "message": "slow"}, ("rate_limit", 429, None, True)),
        ({"status": 503}, ("server", 503, None, True)),
        ({"status": 401}, ("auth", 401, None, False)),
        ({"status": 404}, ("not_found", 404, None, False)),
        ({"type": "timeout"}, ("timeout", None, None, True)),
        ({"type": "connection", "retry_after": None}, ("connection", None, None, True)),
        ({"type": "no_message"}, ("no_message", None, None, True)),
        ({"type": "other"}, ("other", None, None, False)),
    ],
)
def test_a_failure_is_raised_by_the_rules_of_a_live_one(
    tmp_path: Path, error: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    model = script(tmp_path, {"error": error}, {"content": "after"})
    with pytest.raises(ModelFault) as caught:
        model.complete(FORCED)
    fault = caught.value
    assert (fault.error, fault.status, fault.retry_after_ms, fault.retryable) == expected
    assert fault.detail == error.get("message", "")
    assert not fault.declines_tool_choice
    assert model.complete(FREE).content == "after"


@pytest.mark.parametrize("status", [400, 422])
def test_tool_choice_is_declined_only_where_it_was_sent(tmp_path: Path, status: int) -> None:
    model = script(tmp_path, {"error": {"status": status}}, {"error": {"status": status}})
    for request in (FORCED, FREE):
        with pytest.raises(ModelFault) as caught:
            model.complete(request)
        assert caught.value.declines_tool_choice == (request is FORCED)
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", r":2: expected one JSON object, found at column 2"),
        (b"hello", r":2: expected one JSON object"),
        (b"[]", r":2: expected a JSON object, found a list"),
        (b"null", r":2: expected a JSON object, found null"),
        (b'{"content":1,"content":2}', r":2: expected one JSON object, found: an object names"),
        (b'{"content":NaN}', r":2: expected one JSON object, found: NaN is not JSON"),
        (b"[" * 100_000, r":2: expected one JSON object, found: nested"),
        (b'{"content":"\xff"}', r":2: expected UTF-8, found byte 0xff at column 13"),
        (b'{"content":"x"}{"content":"y"}', r":2: expected one JSON object, found at column 16"),
        (b'{"role":"user","content":"x"}', r':2: expected the role "assistant", found "user"'),
        (b'{"contents":"x"}', r":2: expected content, tool_calls or error, found contents"),
        (b"{}", r":2: expected content, tool_calls or error, found nothing"),
        (b'{"error":"no"}', r":2: error: expected an object, found text"),
        (b'{"error":{}}', r":2: error: expected status, type"),
        (b'{"error":{"message":"x"}}', r":2: error: expected status, type"),
        (b'{"error":{"status":429,"retry-after":1}}', r"found retry-after, status"),
        (b'{"error":{"status":200}}', r":2: error.status: expected an integer from 300 to 599"),
        (b'{"error":{"status":true}}', r":2: error.status: expected an integer"),
        (b'{"error":{"status":"429"}}', r':2: error.status: expected an integer.*found "429"'),
        (b'{"error":{"type":"rate"}}', r':2: error.type: expected one of timeout, .*found "rate"'),
        (b'{"error":{"type":[]}}', r":2: error.type: expected one of .*found a list"),
        (b'{"error":{"status":500,"message":1}}', r":2: error.message: expected text"),
        (b'{"error":{"status":429,"retry_after":-1}}', r":2: error.retry_after: .*found -1"),
        (b'{"error":{"status":429,"retry_after":1e999}}', r":2: error.retry_after: "),
        (b'{"error":{"status":429,"retry_after":true}}', r":2: error.retry_after: "),
        (b'{"error":{"status":429,"retry_after":1' + b"0" * 400 + b"}}", r"error.retry_after: "),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected_and_found(
    tmp_path: Path, line: bytes, why: str
) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(b'{"content":"fine"}\n' + line + b"\n")
    with pytest.raises(BadData, match=why) as caught:
        ScriptedModel(path)
    assert caught.value.message.startswith(f"{path}:2: ")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "found"),
    [("none.jsonl", "no such file"), ("", "a directory"), ("a\0b", "a null byte")],
)
def test_a_file_that_is_not_there(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(NoInput, match=found):
        ScriptedModel(os.path.join(tmp_path, name))


def test_the_name_chooses_the_model(tmp_path: Path) -> None:
    path = tmp_path / "with:colon.jsonl"
    path.write_text('{"content":"x"}')
    assert isinstance(model_for(f"script:{path}"), ScriptedModel)
    assert isinstance(model_for("openai/gpt-4o", timeout_seconds=5), LiteLLMModel)


@pytest.mark.parametrize("name", ["", " ", "script:"])
def test_a_name_that_cannot_be_meant_is_misuse(name: str) -> None:
    with pytest.raises(Misuse):
        model_for(name)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_cannot_be_meant_is_misuse(seconds: float) -> None:
    with pytest.raises(Misuse):
        model_for("openai/gpt-4o", timeout_seconds=seconds)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_a_script_needs_no_litellm_and_no_http_client(tmp_path: Path) -> None:
    script(tmp_path, {"content": "x"})
    done = python(
        "import sys\n"
        "from causebook.adapters.models.choose import model_for\n"
        "from causebook.domain.ports import Request\n"
        "model_for('openai/gpt-4o')\n"
        "answer = model_for('script:' + sys.argv[1]).complete(Request('m', (), (), None))\n"
        "assert answer.content == 'x'\n"
        "print(sorted({'litellm', 'openai', 'httpx'} & set(sys.modules)))\n",
        str(tmp_path / "answers.jsonl"),
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_litellm_a_live_model_says_what_to_install() -> None:
    done = python(
        "import sys\n"
        "sys.modules['litellm'] = None\n"
        "from causebook.adapters.models.choose import model_for\n"
        "from causebook.domain.errors import Misuse\n"
        "from causebook.domain.ports import Request\n"
        "try:\n"
        "    model_for('openai/m').complete(Request('openai/m', (), (), None))\n"
        "except Misuse as error:\n"
        "    print(error.message, '|', error.hint)\n"
    )
    assert done.stderr == ""
    assert "not installed | install causebook with its extra 'judge'" in done.stdout


def test_every_failure_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(CausebookError):
        ScriptedModel(tmp_path / "file" / "below")
