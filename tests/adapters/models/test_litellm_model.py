"""A live model through the real litellm, against a real HTTP server on the loopback.

All tests that import litellm (6 s) are in this file, so that one worker pays for it once.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pytest

from causebook.adapters.models.choose import model_for
from causebook.adapters.models.litellm_model import LiteLLMModel
from causebook.adapters.models.retry import attempt
from causebook.domain.ports import ModelFault, Request, Response, ToolCall
from causebook.domain.tools import definition

from .openai_server import (
    OpenAIServer,
    Reply,
    answer,
    body,
    completion,
    error,
    tool_call,
    verdict,
)

KEY = "hunter2-hunter2-key"
MESSAGES: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "You are a judge.\u2028 ünïcode \0"},
    {"role": "user", "content": "The work."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [tool_call("read_file", '{"path": "a"')],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "not JSON"},
)
# litellm leaves out the fields of a message that are null, which OpenAI's API reads the same.
SENT = [{key: value for key, value in m.items() if value is not None} for m in MESSAGES]
TOOLS = (definition("read_file"), definition("submit_verdict"))
FREE = Request("openai/judge", MESSAGES, TOOLS, None)
FORCED = Request("openai/judge", MESSAGES, TOOLS, "submit_verdict")


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """litellm imported, with what it imports at a first call: no test's timeout is to pay for that."""
    with OpenAIServer() as server:
        server.script = [answer("warm")]
        LiteLLMModel("openai/judge", api_base=server.url, api_key=KEY).complete(FREE)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def live(server: OpenAIServer, timeout_seconds: float = 30) -> LiteLLMModel:
    return LiteLLMModel(
        "openai/judge", timeout_seconds=timeout_seconds, api_base=server.url, api_key=KEY
    )


def ask(server: OpenAIServer, reply: Reply, request: Request = FREE) -> Response:
    """The answer to `reply`, for which exactly one request was sent."""
    server.script = [reply]
    response = live(server).complete(request)
    assert len(server.received) == 1
    return response


def fail(
    server: OpenAIServer, reply: Reply, request: Request = FREE, *, timeout_seconds: float = 30
) -> ModelFault:
    """The fault that comes of `reply`, for which exactly one request was sent."""
    server.script = [reply]
    with pytest.raises(ModelFault) as caught:
        live(server, timeout_seconds).complete(request)
    assert len(server.received) == 1
    assert KEY not in caught.value.detail
    return caught.value


def with_choice(**choice: Any) -> Reply:
    return body({**completion(None), "choices": [choice]})


# What is sent


def test_a_free_request_sends_the_messages_and_tools_and_no_tool_choice(
    server: OpenAIServer,
) -> None:
    response = ask(server, answer("prose"))
    sent = server.received[0]
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json == {"model": "judge", "messages": SENT, "tools": list(TOOLS)}
    assert not response.tool_choice_sent


def test_a_forced_request_names_the_tool(server: OpenAIServer) -> None:
    response = ask(server, answer(None, [verdict("pass")]), FORCED)
    assert server.received[0].json == {
        "model": "judge",
        "messages": SENT,
        "tools": list(TOOLS),
        "tool_choice": {"type": "function", "function": {"name": "submit_verdict"}},
    }
    assert response.tool_choice_sent


def test_lone_surrogates_are_replaced_before_sending(server: OpenAIServer) -> None:
    messages = ({"role": "user", "content": "a\ud800b \U0001f600"},)
    ask(server, answer("fine"), Request("openai/judge", messages, TOOLS, None))
    assert server.received[0].json["messages"] == [
        {"role": "user", "content": "a\ufffdb \U0001f600"}
    ]
    assert messages[0]["content"] == "a\ud800b \U0001f600"


def test_a_request_for_another_model_is_a_programmers_mistake(server: OpenAIServer) -> None:
    with pytest.raises(ValueError, match="was given to"):
        live(server).complete(Request("openai/other", MESSAGES, TOOLS, None))
    assert server.received == []


# What is read


def test_an_answer_is_read_as_it_came(server: OpenAIServer) -> None:
    calls = [tool_call("read_file", '{ "path" :"a"}', id="x"), verdict("warn", id="y")]
    response = ask(server, answer("look", calls, finish_reason="tool_calls"))
    assert response.content == "look"
    assert response.calls == (
        ToolCall("x", "read_file", '{ "path" :"a"}'),
        ToolCall("y", "submit_verdict", calls[1]["function"]["arguments"]),
    )
    assert response.model == "judge-2026-01-01"
    assert (response.finish_reason, response.prompt_tokens, response.completion_tokens) == (
        "tool_calls",
        11,
        7,
    )
    assert response.milliseconds >= 0
    assert response.client == "litellm"
    assert response.client_version[0].isdigit()


def test_a_forced_tool_that_is_ignored_is_prose(server: OpenAIServer) -> None:
    response = ask(server, answer("I think it is fine: pass."), FORCED)
    assert (response.content, response.calls) == ("I think it is fine: pass.", ())
    assert response.tool_choice_sent


@pytest.mark.parametrize("reason", ["stop", "banana", None, 3])
def test_finish_reason_is_data(server: OpenAIServer, reason: Any) -> None:
    response = ask(server, answer(None, [verdict("pass")], finish_reason=reason))
    assert response.finish_reason == ("3" if reason == 3 else reason)
    assert len(response.calls) == 1


def test_null_content_without_calls_is_an_empty_answer(server: OpenAIServer) -> None:
    response = ask(server, answer(None))
    assert (response.content, response.calls) == (None, ())


def test_reasoning_inside_the_text_is_not_taken_out(server: OpenAIServer) -> None:
    text = "<think>hm</think> fine"
    assert ask(server, answer(text)).content == text


def test_arguments_cut_off_in_the_middle_stay_cut_off(server: OpenAIServer) -> None:
    response = ask(server, answer(None, [tool_call("read_file", '{"path": "a')]))
    assert response.calls == (ToolCall("call_1", "read_file", '{"path": "a'),)


@pytest.mark.parametrize("arguments", [None, ""])
def test_missing_arguments_never_become_an_object(server: OpenAIServer, arguments: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert ask(server, answer(None, [call])).calls == (ToolCall("c", "f", ""),)


def test_arguments_that_are_an_object_are_written_canonically_and_marked(
    server: OpenAIServer,
) -> None:
    arguments = {"path": "ü", "a": {"z": [1], "b": None}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert ask(server, answer(None, [call])).calls == (
        ToolCall("c", "f", '{"a":{"b":null,"z":[1]},"path":"ü"}', was_object=True),
    )


def test_duplicate_and_missing_ids_are_data(server: OpenAIServer) -> None:
    calls = [
        tool_call("f", "{}", id="same"),
        tool_call("f", "{}", id="same"),
        tool_call("f", "{}", id=None),
        {"type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    response = ask(server, answer(None, calls))
    assert [call.id for call in response.calls] == ["same", "same", None, None]


@pytest.mark.parametrize(
    "calls", ["f", 5, {}, ["f"], [None], [{}], [{"id": "c", "type": "function", "function": None}]]
)
def test_calls_that_are_none_are_nameless_calls(server: OpenAIServer, calls: Any) -> None:
    message = {"role": "assistant", "content": "text", "tool_calls": calls}
    response = ask(server, body(completion(message)))
    assert response.content == "text"
    assert [call.name for call in response.calls] == [""]


def test_a_call_that_looks_like_a_bundle_is_not_unpacked(server: OpenAIServer) -> None:
    uses = [{"recipient_name": "functions.submit_verdict", "parameters": {"severity": "pass"}}]
    call = tool_call("multi_tool_use.parallel", {"tool_uses": uses})
    response = ask(server, answer(None, [call]))
    assert [call.name for call in response.calls] == ["multi_tool_use.parallel"]


def test_ten_thousand_parallel_calls(server: OpenAIServer) -> None:
    calls = [tool_call("read_file", {"path": str(n)}, id=str(n)) for n in range(10_000)]
    response = ask(server, answer(None, calls))
    assert [call.id for call in response.calls] == [str(n) for n in range(10_000)]


def test_two_megabytes_of_prose(server: OpenAIServer) -> None:
    prose = "word\u2028 é" * 250_000
    assert ask(server, answer(prose)).content == prose


@pytest.mark.parametrize("text", ["a\ud800b", "a\0b", "a\u2028b\u2029c\x85d\r\n", "\ufeffx"])
def test_odd_characters_come_through(server: OpenAIServer, text: str) -> None:
    assert ask(server, answer(text)).content == text


@pytest.mark.parametrize("usage", [None, {}, 5, {"prompt_tokens": -1}, {"prompt_tokens": 2.5}])
def test_tokens_that_were_not_said_are_none(server: OpenAIServer, usage: Any) -> None:
    response = ask(server, answer("fine", usage=usage))
    assert (response.prompt_tokens, response.completion_tokens) == (None, None)


# An answer without a message


@pytest.mark.parametrize(
    "reply",
    [
        body({**completion(None), "choices": []}),
        body({"id": "x", "object": "chat.completion", "model": "judge"}),
        body({**completion(None), "choices": None}),
        body({**completion(None), "choices": {"message": {"content": "x"}}}),
        with_choice(index=0, message=None, finish_reason="stop"),
        with_choice(index=0, finish_reason="stop"),
        with_choice(index=0, message="pass", finish_reason="stop"),
        body({**completion(None), "choices": [None]}),
        body({}),
        body([]),
        body(None),
        body("pass"),
        body({"error": {"message": "upstream is busy", "code": 502}}),
        Reply(b""),
        Reply(b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"}),
        Reply(b"not JSON"),
        Reply(b'{"choices": [{"message": {"content": "\xff"}}]}'),
        Reply(b"[" * 200_000),
        Reply(b"", 204),
    ],
    ids=lambda reply: repr(reply.body[:60]),
)
def test_a_response_without_a_message_is_a_fault(server: OpenAIServer, reply: Reply) -> None:
    fault = fail(server, reply)
    assert fault.error == "no_message"
    assert fault.status == reply.status
    assert fault.retryable
    assert not fault.declines_tool_choice


# A refusal


@pytest.mark.parametrize(
    ("status", "name", "retryable"),
    [
        (400, "bad_request", False),
        (401, "auth", False),
        (402, "other", False),
        (403, "auth", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (409, "other", True),
        (413, "other", False),
        (422, "bad_request", False),
        (429, "rate_limit", True),
        (500, "server", True),
        (503, "server", True),
        (529, "server", True),
    ],
)
def test_a_status_is_the_providers_own(
    server: OpenAIServer, status: int, name: str, retryable: bool
) -> None:
    fault = fail(server, error(status, "429 rate limit, timeout, authentication"))
    assert (fault.error, fault.status, fault.retryable) == (name, status, retryable)
    assert "429 rate limit, timeout, authentication" in fault.detail
    assert fault.retry_after_ms is None
    assert not fault.declines_tool_choice


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("7", 7_000),
        (formatdate(1_000_000_003, usegmt=True), 3_000),
        (formatdate(999_999_999, usegmt=True), None),
        ("soon", None),
        ("-5", None),
        ("9" * 30, 2**53 - 1),
    ],
)
def test_retry_after_is_read(server: OpenAIServer, header: str, expected: int | None) -> None:
    headers = {"Retry-After": header, "Date": formatdate(1_000_000_000, usegmt=True)}
    assert fail(server, error(429, headers=headers)).retry_after_ms == expected


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_tool_choice_is_asked_again_without_it(server: OpenAIServer, status: int) -> None:
    server.script = [error(status, "tool_choice is not supported"), answer("pass, I think")]
    outcome = attempt(live(server), FORCED, sleep=_never)
    assert outcome.response is not None
    assert outcome.response.content == "pass, I think"
    assert not outcome.response.tool_choice_sent
    (failed,) = outcome.failures
    assert failed.declined_tool_choice
    assert (failed.fault.error, failed.fault.status) == ("bad_request", status)
    first, second = (received.json for received in server.received)
    assert first.pop("tool_choice")
    assert first == second


def test_a_422_that_names_a_parameter_drops_nothing_and_asks_once(server: OpenAIServer) -> None:
    detail = {"detail": [{"loc": ["body", "tool_choice"], "msg": "extra fields not permitted"}]}
    fault = fail(server, error(422, json.dumps(detail)), FORCED)
    assert fault.declines_tool_choice


@pytest.mark.parametrize(
    "words",
    [
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Last message must have role `user`",
        "unknown field: parameter index is not a valid field",
    ],
)
def test_words_that_make_litellm_ask_twice_make_it_ask_once(
    server: OpenAIServer, words: str
) -> None:
    fault = fail(server, error(400, words))
    assert (fault.error, fault.status) == ("bad_request", 400)
    assert words in fault.detail


def test_a_refusal_is_not_turned_into_an_empty_answer(server: OpenAIServer) -> None:
    words = "Could not finish the message because max_tokens or model output limit was reached"
    assert fail(server, error(400, words)).status == 400


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(server: OpenAIServer, status: int) -> None:
    reply = Reply(b"", status, {"Location": f"{server.url}/elsewhere"})
    fault = fail(server, reply)
    assert (fault.error, fault.status, fault.retryable) == ("other", status, False)


def test_a_key_in_the_providers_words_does_not_reach_the_detail(server: OpenAIServer) -> None:
    fault = fail(server, error(401, f"the key {KEY} is not known, nor is sk-proj-abcdef123456"))
    assert fault.error == "auth"
    assert "sk-proj" not in fault.detail
    assert "[redacted]" in fault.detail


def test_a_key_from_the_environment_is_used_and_does_not_reach_the_detail(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.script = [error(403, f"no: {KEY}")]
    with pytest.raises(ModelFault) as caught:
        model_for("openai/judge", timeout_seconds=30).complete(FREE)
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert caught.value.error == "auth"
    assert KEY not in caught.value.detail


# Nothing came, or not all of it


def test_a_server_that_says_nothing_is_a_timeout(server: OpenAIServer) -> None:
    fault = fail(server, Reply(misbehaviour="hang"), FORCED, timeout_seconds=1)
    assert (fault.error, fault.status, fault.retryable) == ("timeout", None, True)
    assert not fault.declines_tool_choice


@pytest.mark.parametrize("part", ["drip", "drip_headers"])
def test_a_server_that_drips_is_a_timeout_and_its_thread_ends(
    server: OpenAIServer, part: Any
) -> None:
    whole = answer("x" * 1_000_000)
    fault = fail(server, Reply(whole.body, misbehaviour=part), timeout_seconds=1)
    assert (fault.error, fault.retryable) == ("timeout", True)
    _wait_for(lambda: not _tries_under_way())


def test_a_refusal_whose_body_drips_is_still_that_refusal(server: OpenAIServer) -> None:
    reply = Reply(b"x" * 100_000, 400, misbehaviour="drip")
    fault = fail(server, reply, FORCED, timeout_seconds=2)
    assert (fault.error, fault.status, fault.declines_tool_choice) == ("bad_request", 400, True)


def test_a_body_cut_in_the_middle_is_a_lost_connection(server: OpenAIServer) -> None:
    whole = answer("x" * 100_000)
    fault = fail(server, Reply(whole.body, misbehaviour="cut"))
    assert (fault.error, fault.status, fault.retryable) == ("connection", 200, True)


def test_a_refused_connection() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
        base = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(ModelFault) as caught:
            LiteLLMModel("openai/judge", api_base=base, api_key=KEY).complete(FREE)
    fault = caught.value
    assert (fault.error, fault.status, fault.retryable) == ("connection", None, True)


def test_tries_are_numbered_and_each_is_one_request(server: OpenAIServer) -> None:
    server.script = [error(500), error(429, headers={"Retry-After": "2"}), answer("at last")]
    slept: list[float] = []
    outcome = attempt(live(server), FREE, sleep=slept.append, random=lambda: 0.5)
    assert outcome.response is not None
    assert outcome.try_number == 3
    assert slept == [0.5, 2.0]
    assert [failed.fault.error for failed in outcome.failures] == ["server", "rate_limit"]
    assert len(server.received) == 3
    assert len({received.body for received in server.received}) == 1


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_without_end_is_not_read_to_the_end(server: OpenAIServer, announced: bool) -> None:
    reply = answer("x" * (33 * 1024 * 1024))
    if not announced:
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(reply.body), reply.body)
        reply = Reply(chunk, headers={"Content-Length": "", "Transfer-Encoding": "chunked"})
    fault = fail(server, reply)
    assert (fault.error, fault.status, fault.retryable) == ("other", 200, False)
    assert "longer than 33554432 bytes" in fault.detail


def test_calls_without_end_are_no_answer(server: OpenAIServer) -> None:
    """litellm's own reading of such a body takes gigabytes and minutes, so it is not shown to it."""
    calls = b",".join([b"{}"] * 1_000_000)
    fault = fail(server, Reply(b'{"choices":[{"message":{"tool_calls":[%b]}}]}' % calls))
    assert (fault.error, fault.status, fault.retryable) == ("other", 200, False)
    assert "more than 100000 calls" in fault.detail


def test_a_compressed_body_is_declined_and_refused(server: OpenAIServer) -> None:
    fault = fail(server, Reply(b"bomb", headers={"Content-Encoding": "gzip"}))
    assert server.received[0].headers["accept-encoding"] == "identity"
    assert fault.error == "other"
    assert "compressed" in fault.detail


# What litellm itself does


def test_a_parameter_that_litellm_thinks_unsupported_is_declined_and_not_dropped(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import litellm

    monkeypatch.setattr(litellm, "drop_params", True)
    name = "perplexity/sonar"
    model = LiteLLMModel(name, timeout_seconds=30, api_base=server.url, api_key=KEY)
    with pytest.raises(ModelFault) as caught:
        model.complete(Request(name, MESSAGES, TOOLS, "submit_verdict"))
    assert server.received == []
    assert (caught.value.error, caught.value.status) == ("bad_request", None)
    assert caught.value.declines_tool_choice
    assert not caught.value.retryable


def test_a_provider_that_litellm_does_not_know_is_a_fault() -> None:
    with pytest.raises(ModelFault) as caught:
        LiteLLMModel("no-such-model").complete(Request("no-such-model", MESSAGES, TOOLS, None))
    assert caught.value.error == "bad_request"
    assert not caught.value.retryable


ANTHROPIC = "anthropic/claude-3-5-haiku-latest"


def anthropic(server: OpenAIServer) -> LiteLLMModel:
    return LiteLLMModel(ANTHROPIC, timeout_seconds=30, api_base=server.root, api_key=KEY)


def test_an_answer_in_another_dialect_is_translated(server: OpenAIServer) -> None:
    server.script = [
        body(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-x",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 3, "output_tokens": 4},
            }
        )
    ]
    response = anthropic(server).complete(Request(ANTHROPIC, MESSAGES[:2], TOOLS, "submit_verdict"))
    assert server.received[0].json["tool_choice"] == {"type": "tool", "name": "submit_verdict"}
    assert response.content == "look"
    (call,) = response.calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("t1", "read_file", {"path": "a"})
    assert (response.model, response.prompt_tokens, response.completion_tokens) == (
        "claude-x",
        3,
        4,
    )


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (error(529), ("server", 529, True)),
        (error(429, headers={"Retry-After": "3"}), ("rate_limit", 429, True)),
        (body({}), ("no_message", 200, True)),
        (body({"content": 5, "usage": None}), ("no_message", 200, True)),
        (Reply(b"<html>"), ("no_message", 200, True)),
    ],
    ids=["529", "429", "empty", "crash", "html"],
)
def test_faults_in_another_dialect_are_as_the_wire_showed_them(
    server: OpenAIServer, reply: Reply, expected: tuple[str, int, bool]
) -> None:
    server.script = [reply]
    with pytest.raises(ModelFault) as caught:
        anthropic(server).complete(Request(ANTHROPIC, MESSAGES[:2], TOOLS, None))
    fault = caught.value
    assert (fault.error, fault.status, fault.retryable) == expected
    assert len(server.received) == 1


def test_an_answer_too_long_to_translate_is_refused(server: OpenAIServer) -> None:
    server.script = [body({"content": [{"type": "text", "text": "x" * 3_000_000}]})]
    with pytest.raises(ModelFault) as caught:
        anthropic(server).complete(Request(ANTHROPIC, MESSAGES[:2], TOOLS, None))
    assert (caught.value.error, caught.value.status) == ("other", 200)
    assert "longer than 2097152 bytes" in caught.value.detail


def test_what_litellm_closes_stays_open(server: OpenAIServer) -> None:
    import litellm

    server.script = [answer("1"), answer("2")]
    model = live(server)
    assert model.complete(FREE).content == "1"
    assert litellm.client_session is not None
    litellm.client_session.close()
    assert model.complete(FREE).content == "2"


def test_several_judges_ask_at_once_and_each_gets_its_own_answer(server: OpenAIServer) -> None:
    server.script = [answer(str(n)) for n in range(8)]
    found: list[str | None] = []

    def judge() -> None:
        found.append(live(server).complete(FREE).content)

    threads = [threading.Thread(target=judge) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(str(content) for content in found) == [str(n) for n in range(8)]
    assert len(server.received) == 8


def test_nothing_is_printed_and_no_dot_env_is_read(server: OpenAIServer, tmp_path: Any) -> None:
    server.script = [error(400, "Bad"), answer("fine")]
    (tmp_path / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:1/v1\nPLANTED=1\n")
    code = (
        "import os, sys\n"
        "from causebook.adapters.models.litellm_model import LiteLLMModel\n"
        "from causebook.domain.ports import ModelFault, Request\n"
        "model = LiteLLMModel('openai/judge', api_base=sys.argv[1], api_key='hunter2-key')\n"
        "request = Request('openai/judge', ({'role': 'user', 'content': 'x'},), (), None)\n"
        "try:\n"
        "    model.complete(request)\n"
        "except ModelFault as fault:\n"
        "    assert fault.status == 400\n"
        "assert model.complete(request).content == 'fine'\n"
        "assert 'PLANTED' not in os.environ\n"
        "assert 'LITELLM_MODE' not in os.environ\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, server.url],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def _never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s")


def _tries_under_way() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "causebook-try"]


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
