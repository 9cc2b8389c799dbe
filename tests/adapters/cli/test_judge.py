"""`judge` and `resolve`: what a panel came to, its exit code, which attempt it judges, who is told what."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.cli import writing
from causebook.adapters.cli.judge import attempt_to_judge
from causebook.adapters.ledger import Ledger
from causebook.adapters.panel import Panel
from causebook.adapters.reading import unpacked
from causebook.adapters.seat import Judge
from causebook.adapters.store.url import open_store
from causebook.domain.errors import Busy, IOFailure
from tests.adapters.cli.conftest import (
    BLOCKER,
    FAULT,
    PASS,
    PROSE,
    WARN,
    Desk,
    git,
    invoke,
    say,
    verdict,
)


def records(task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in invoke("log", task, "--json").lines]


def types(task: str) -> list[str]:
    return [record["type"] for record in records(task) if record["stream"] == f"task/{task}"]


@pytest.mark.parametrize(
    ("answers", "policy", "code", "last_line"),
    [
        ((PASS, PASS), "unanimous", 0, "passed"),
        ((PASS, WARN), "any", 0, "passed, with a warn noted"),
        ((PASS, BLOCKER), "any", 10, "halted: blocker"),
        ((PASS, WARN), "unanimous", 11, "halted: escalate"),
        ((PASS, PROSE), "any", 12, "halted: validator_error"),
        ((FAULT, BLOCKER), "any", 12, "halted: validator_error"),
    ],
)
def test_what_a_panel_comes_to(
    desk: Desk, answers: tuple[str, ...], policy: str, code: int, last_line: str
) -> None:
    done = desk.judge("T-104", *answers, policy=policy)
    assert (done.code, done.err) == (code, "")
    assert done.lines[0] == f"T-104, attempt 1, post_execute: {policy} of 2"
    assert done.lines[-1] == f"{last_line:<60}  causebook why T-104".replace(
        " " * (62 - len(last_line)), " " * (80 - len(last_line) - 19)
    )
    assert all(len(line) <= 80 for line in done.lines)


def test_a_line_a_turn(desk: Desk) -> None:
    desk.script(
        "busy",
        [
            say(None, ("read_file", '{"path": "a.txt"}'), ("list_files", "{}")),
            say(None, ("read_file", '{"path": "./a.txt"}')),
            say(None, ("rm", "{}")),
            say("Well."),
            verdict("blocker"),
        ],
    )
    done = desk.judge("T-1", "busy")
    assert [line.rstrip() for line in done.lines[1:-1]] == [
        "  j1   1  read_file a.txt   and 1 more                 charged   1/20",
        "  j1   2  read_file a.txt   repeat of 1                spared    1/20  stall 1/3",
        "  j1   3  rm   refused: not offered                    charged   2/20",
        "  j1   4  prose                                        charged   3/20",
        "  j1   5  tools withdrawn: narration",
        "  j1   5  submit_verdict blocker                       charged   4/20",
    ]


def test_calls_past_the_last_that_is_answered_are_counted_too(desk: Desk) -> None:
    many = [("read_file", '{"path": "a.txt"}')] * 1_200
    desk.script("busy", [say(None, *many), verdict("pass")])
    assert "and 1,199 more" in desk.judge("T-1", "busy").lines[1]


def test_a_spec_that_is_the_name_of_a_file_is_asked_about(desk: Desk) -> None:
    Path("task.md").write_text("Keep it short.\n")
    done = desk.judge("T-1", PASS, options=("--spec", "task.md"))
    assert done.code == 0
    assert done.err == (
        "warning: --spec: taken as text, and a file is called so: --spec @task.md reads it\n"
    )
    assert desk.judge("T-2", PASS, options=("--spec", "@task.md")).err == ""


def test_what_became_of_a_turn_is_never_cut(desk: Desk) -> None:
    twice = say(None, ("read_file", '{"path": "a.txt"}'), ("read_file", '{"path": "a.txt"}'))
    desk.script("twice", [twice, twice, verdict("pass")])
    name = desk.protocol("twice", PASS)
    judges = ["security-of-the-release-one", "security-of-the-release-two"]
    text = (
        Path(name).read_text().replace('"j1"', f'"{judges[0]}"').replace('"j2"', f'"{judges[1]}"')
    )
    Path(name).write_text(text)
    done = invoke("judge", "T-1", "--protocol", name, "--workspace", "work")
    assert done.code == 0
    assert "repeat of 1, and 1 more" in done.out
    assert all(len(line) <= 80 for line in done.lines)
    assert {line.split()[0] for line in done.lines[1:-1] if line[2] != " "} == {
        *("security-…elease-one", "security-…elease-two"),
    }


def test_json_is_the_halt_payload_and_progress_goes_to_stderr(desk: Desk) -> None:
    done = desk.judge("T-1", BLOCKER, options=["--json"])
    assert done.code == 10
    assert done.json["halt_type"] == "blocker"
    assert done.json == invoke("why", "T-1", "--json").json
    assert "attempt 1, post_execute" in done.err


def test_the_change_is_put_before_the_judges(desk: Desk) -> None:
    assert desk.judge("T-1", PASS, options=["--spec", "Add a line"]).code == 0
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert len(convened["base"]) == 40
    assert convened["workspace"]["dirty"] is False
    brief = evidence(desk, convened["brief"])
    assert "Add a line" in brief
    assert "+three" in brief


def test_the_spec_may_be_read_from_a_file_and_the_base_named(desk: Desk) -> None:
    Path("spec.md").write_text("From a file.")
    empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert desk.judge("T-1", PASS, options=["--spec", "@spec.md", "--base", empty]).code == 0
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    brief = evidence(desk, convened["brief"])
    assert "From a file." in brief
    assert "+one" in brief


def test_a_proposal_is_judged_without_a_change(desk: Desk) -> None:
    assert desk.judge("T-1", PASS, phase="pre_execute").code == 0
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert convened["base"] is None
    assert "three" not in evidence(desk, convened["brief"])


def test_a_workspace_without_git_is_judged_as_it_is(desk: Desk) -> None:
    shutil.rmtree("work/.git")
    assert desk.judge("T-1", WARN, policy="any").code == 11
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert convened["workspace"]["commit"] is None
    assert convened["workspace"]["tree"] is not None


def evidence(desk: Desk, commitment: str) -> str:
    store = open_store(desk.url)
    try:
        row = store.evidence(commitment)
        assert row is not None
        return unpacked(row).decode()
    finally:
        store.close()


def test_no_judge_reads_the_keys_or_the_ledgers_folder_of_its_own(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`init` and `judge --workspace .` in one repository: the usual way, and no key goes to a model."""
    monkeypatch.chdir("work")
    for name in ("CAUSEBOOK_LEDGER", "CAUSEBOOK_KEYS"):
        monkeypatch.delenv(name)
    assert invoke("init").code == 0
    desk.script(
        "spy",
        [
            say(None, ("read_file", '{"path": ".causebook/keys/engine.pem"}')),
            say(None, ("list_files", '{"directory": "."}')),
            verdict("pass"),
        ],
    )
    desk.protocol("spy")
    assert invoke("judge", "T-1", "--protocol", "../protocol.toml", "--workspace", ".").code == 0
    pem = Path(".causebook/keys/engine.pem").read_text()
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert convened["workspace"]["dirty"] is False
    with sqlite3.connect(".causebook/ledger.db") as connection:
        commitments = [c for (c,) in connection.execute("SELECT commitment FROM evidence")]
    seen = [evidence(Desk(Path.cwd() / ".causebook"), c) for c in commitments]
    assert any("a.txt" in text for text in seen)
    assert not any(pem.splitlines()[1] in text or "ledger.db" in text for text in seen)
    assert any("private" in text for text in seen)


# ── which attempt ────────────────────────────────────────────────────────────────────────────────────


def test_a_halted_task_is_tried_again(desk: Desk) -> None:
    assert desk.judge("T-1", BLOCKER).code == 10
    assert desk.judge("T-1", PASS).code == 0
    assert types("T-1")[-6:] == [
        "AttemptClosed",
        "AttemptStarted",
        "PanelConvened",
        "PanelDecided",
        "AttemptClosed",
        "TaskCompleted",
    ]
    done = desk.judge("T-1", PASS)
    assert done.code == 64
    assert "completed at attempt 2" in done.err


def test_one_attempt_is_judged_before_and_after(desk: Desk) -> None:
    assert desk.judge("T-1", PASS, phase="pre_execute").code == 0
    done = desk.judge("T-1", PASS, phase="pre_execute")
    assert done.code == 64
    assert "attempt 1 is open and does not wait for pre_execute: pre_execute was judged" in done.err
    assert desk.judge("T-1", PASS, options=["--attempt", "1"]).code == 0
    assert types("T-1").count("AttemptStarted") == 1


def test_the_attempt_asked_for_must_be_the_one(desk: Desk) -> None:
    assert desk.judge("T-1", BLOCKER, options=["--attempt", "1"]).code == 10
    done = desk.judge("T-1", PASS, options=["--attempt", "1"])
    assert done.code == 64
    assert "--attempt: expected 2, found 1" in done.err
    assert desk.judge("T-1", PASS, options=["--attempt", "2"]).code == 0


def test_an_attempt_an_engine_started_is_gone_on_with(desk: Desk) -> None:
    with Ledger.open(desk.url, keys=desk.folder / "keys") as ledger:
        ledger.task("T-1").start_attempt().dispatch_coder("coder")
    assert desk.judge("T-1", PASS).code == 0
    assert types("T-1").count("AttemptStarted") == 1


def test_an_escalated_attempt_waits_for_a_person(desk: Desk) -> None:
    assert desk.judge("T-1", WARN).code == 11
    done = desk.judge("T-1", PASS)
    assert done.code == 64
    assert "waits for a person" in done.err
    assert "causebook resolve T-1" in done.err


@pytest.mark.parametrize(
    ("decision", "phase", "status", "said"),
    [
        ("proceed", "post_execute", "completed", "the task is completed"),
        ("proceed", "pre_execute", "open", "goes on to post_execute"),
        ("halt", "post_execute", "blocked", "stays blocked"),
        ("reject", "pre_execute", "blocked", "stays blocked"),
    ],
)
def test_a_person_resolves_an_escalation(
    desk: Desk, decision: str, phase: str, status: str, said: str
) -> None:
    desk.judge("T-1", PASS, WARN, phase=phase)
    who = ("--name", "Ada Example", "--meaning", "risk accepted", "--comment", "See minutes.")
    done = invoke("resolve", "T-1", "--decision", decision, *who)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"T-1 resolved: {decision}, by Ada Example, at attempt 1, {phase}"
    assert all(len(line) <= 80 for line in done.lines)
    assert said in done.out
    payload = invoke("why", "T-1", "--json").json
    assert payload["status"] == status
    assert payload["resolution"]["decision"] == decision
    again = invoke("resolve", "T-1", "--decision", decision, *who)
    assert again.code == 64
    assert invoke("verify").code == 20


def test_resolve_prints_the_payload_as_json(desk: Desk) -> None:
    desk.judge("T-1", WARN)
    who = ("--name", "A", "--meaning", "b", "--json")
    done = invoke("resolve", "T-1", "--decision", "halt", *who)
    assert done.json["resolution"]["name"] == "A"


# ── others at work ───────────────────────────────────────────────────────────────────────────────────


def sitting(desk: Desk, task: str = "T-1") -> tuple[Ledger, Panel]:
    ledger = Ledger.open(desk.url, keys=desk.folder / "keys")
    attempt = ledger.task(task).start_attempt()
    panel = attempt.convene("post_execute", "any", [Judge("slow", "m", ("x",), ())])
    return ledger, panel


def test_a_task_that_another_process_judges_is_busy_and_says_who(desk: Desk) -> None:
    ledger, panel = sitting(desk)
    with ledger:
        done = desk.judge("T-1", PASS)
        panel.interrupt()
    assert done.code == 75
    assert f"judged by process {os.getpid()} on " in done.err
    assert len(done.err.splitlines()) == 2


def test_an_attempt_that_another_process_starts_meanwhile_is_joined(desk: Desk) -> None:
    keys = desk.folder / "keys"
    with Ledger.open(desk.url, keys=keys) as mine, Ledger.open(desk.url, keys=keys) as theirs:
        task = mine.task("T-1")
        theirs.task("T-1").start_attempt()
        assert attempt_to_judge(task, None, "post_execute").number == 1
    assert types("T-1") == ["TaskOpened", "AttemptStarted"]


@pytest.mark.parametrize("done", [False, True])
def test_an_attempt_that_another_process_judges_meanwhile_is_busy(desk: Desk, done: bool) -> None:
    keys = desk.folder / "keys"
    with Ledger.open(desk.url, keys=keys) as mine:
        task = mine.task("T-1")
        theirs, panel = sitting(desk)
        with theirs:
            if done:
                panel.interrupt()
            with pytest.raises(Busy) as caught:
                attempt_to_judge(task, None, "post_execute")
            if not done:
                panel.interrupt()
    words = "changed it meanwhile" if done else f"judged by process {os.getpid()}"
    assert words in caught.value.message
    assert types("T-1").count("AttemptStarted") == 1


def test_the_panel_of_a_runner_that_is_gone_is_closed_first(desk: Desk) -> None:
    ledger, panel = sitting(desk)
    panel.leave()
    ledger.close()
    done = desk.judge("T-1", PASS)
    assert done.code == 0
    assert done.err.startswith("warning: task T-1: the panel of a runner that is gone")
    assert done.lines[0].startswith("T-1, attempt 2")
    assert invoke("why", "T-1", "--attempt", "1", "--json").json["halt_type"] == "validator_error"


def test_projections_that_cannot_be_brought_up_to_date_lose_no_verdict(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(store: object) -> None:
        raise IOFailure("disk full")

    monkeypatch.setattr(writing, "catch_up", full)
    done = desk.judge("T-1", BLOCKER)
    assert done.code == 10
    assert done.err == (
        "warning: the projections lag: disk full; causebook rebuild brings them up to date\n"
    )
    assert done.lines[-1].startswith("halted: blocker")


def test_another_projector_at_work_is_waited_for(desk: Desk) -> None:
    store = open_store(desk.url)
    held = store.projector("tasks")
    held.__enter__()
    timer = threading.Timer(0.3, lambda: held.__exit__(None, None, None))
    timer.start()
    try:
        done = desk.judge("T-1", PASS)
    finally:
        timer.join()
        store.close()
    assert (done.code, done.err) == (0, "")


# ── interrupted ──────────────────────────────────────────────────────────────────────────────────────


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "causebook", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_ctrl_c_closes_what_is_open_and_keeps_the_rest(desk: Desk) -> None:
    """A provider that asks to be waited for holds the judge; Ctrl-C comes once the panel sits."""
    wait = {"error": {"status": 429, "type": "rate_limit", "message": "", "retry_after": 25}}
    desk.script("waits", [wait])
    name = desk.protocol(PASS, "waits")
    with start("judge", "T-1", "--protocol", name, "--workspace", "work") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("T-1, attempt 1")
        assert "submit_verdict pass" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[0].startswith("error: task T-1: interrupted")
    payload = invoke("why", "T-1", "--json").json
    assert payload["halt_type"] == "validator_error"
    results = {r["judge"]: r for r in payload["validator_results"]}
    assert results["j1"]["severity"] == "pass"
    assert results["j2"]["error"] is True
    assert "gone" in results["j2"]["justification"]
    assert invoke("verify").code == 20
    assert out == ""


def test_a_reader_that_leaves_does_not_end_the_panel_and_had_no_answer(desk: Desk) -> None:
    desk.script("long", [*[say(None, ("rm", "{}"))] * 10, verdict("warn")])
    name = desk.protocol("long")
    with start("judge", "T-1", "--protocol", name, "--workspace", "work") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=30) == 74
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert invoke("why", "T-1", "--json").json["halt_type"] == "escalate"


def test_a_dirty_tree_is_said_to_be(desk: Desk) -> None:
    Path("work/new.txt").write_text("not yet added\n")
    assert desk.judge("T-1", PASS).code == 0
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert convened["workspace"]["dirty"] is True
    assert "not yet added" in evidence(desk, convened["brief"])


def test_a_first_commit_is_compared_with_nothing(desk: Desk) -> None:
    shutil.rmtree("work/.git")
    git(Path("work"), "init", "--quiet")
    git(Path("work"), "add", "--all")
    git(Path("work"), "commit", "--quiet", "--message", "only")
    assert desk.judge("T-1", PASS).code == 0
    convened = next(r["data"] for r in records("T-1") if r["type"] == "PanelConvened")
    assert "+one" in evidence(desk, convened["brief"])
