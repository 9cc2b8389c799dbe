"""Every command on a ledger in PostgreSQL says what it says on one in SQLite."""

from __future__ import annotations

import pytest

from tests.adapters.cli.conftest import BLOCKER, PASS, WARN, Desk, invoke


def test_the_main_job_on_postgresql(
    desk: Desk, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEBOOK_LEDGER", postgres_database)
    monkeypatch.setenv("CAUSEBOOK_KEYS", str(desk.folder / "pg-keys"))
    assert invoke("tasks").code == 66
    assert invoke("init", "--origin", "a.example/pg").code == 0
    assert invoke("init").code == 73
    assert desk.judge("T-1", PASS, BLOCKER).code == 10
    assert desk.judge("T-2", PASS, WARN).code == 11
    who = ("--name", "Ada Example", "--meaning", "risk accepted")
    assert invoke("resolve", "T-2", "--decision", "proceed", *who).code == 0
    page = invoke("why", "T-1")
    assert page.lines[0] == "T-1 halted: blocker, at attempt 1, post_execute"
    assert "signatures, chains, law and evidence hold" in page.out
    for command in (("log",), ("log", "T-2"), ("tasks",), ("replay", "T-1"), ("keys", "list")):
        done = invoke(*command)
        assert (done.code, done.err) == (0, ""), command
    assert (invoke("rebuild").code, invoke("verify").code) == (0, 0)  # init pinned it
    assert invoke("verify", "--live").code == 0
    assert [t["status"] for t in invoke("tasks", "--json").json["tasks"]] == [
        "blocked",
        "completed",
    ]
