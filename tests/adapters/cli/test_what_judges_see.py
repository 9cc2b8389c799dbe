"""`judge` shows a panel the work and its change: all of it, said to be so where not, and no secret."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from causebook.adapters.reading import unpacked
from causebook.adapters.store.url import open_store
from tests.adapters.cli.conftest import PASS, Desk, git, invoke, say, verdict

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
READS = [
    ("list_files", '{"directory": "."}'),
    ("summarize_directory", '{"directory": "."}'),
    ("read_file", '{"path": "kz/engine.pem"}'),
    ("git_show", '{"ref": "HEAD", "path": "kz/engine.pem"}'),
    ("read_diff_between_refs", '{"ref1": "HEAD^", "ref2": "HEAD"}'),
    *(("read_file", f'{{"path": "ledger.db{end}"}}') for end in ("", "-wal", "-shm")),
    ("list_files", '{"directory": "ledger.db.locks"}'),
    ("git_show", '{"ref": "HEAD", "path": "ledger.db"}'),
]
PHRASE_READS = [
    ("read_file", '{"path": "phrase"}'),
    ("git_show", '{"ref": "HEAD", "path": "phrase"}'),
]


@pytest.fixture
def inside(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The work itself is the working directory, no setting names a ledger, and a judge reads all it can."""
    monkeypatch.chdir("work")
    for name in ("CAUSEBOOK_LEDGER", "CAUSEBOOK_KEYS"):
        monkeypatch.delenv(name)
    desk.script("spy", [say(None, *READS), verdict("pass")])
    desk.protocol("spy")
    return desk


def judge(*options: str) -> Any:
    done = invoke(
        *("judge", "T-1", "--protocol", "../protocol.toml", "--workspace", ".", *options, "--json")
    )
    assert done.code == 0, done.err
    return done


def evidence(ledger: str) -> list[str]:
    """All that the models were sent, and all that they answered."""
    with sqlite3.connect(ledger) as connection:
        commitments = [c for (c,) in connection.execute("SELECT commitment FROM evidence")]
    store = open_store(f"sqlite:///{ledger}")
    try:
        rows = [store.evidence(commitment) for commitment in commitments]
        return [unpacked(row).decode() for row in rows if row is not None]
    finally:
        store.close()


def secrets(folder: str) -> set[str]:
    return {path.read_text().splitlines()[1] for path in Path(folder).glob("*.pem")}


def brief(ledger: str) -> str:
    return next(text for text in evidence(ledger) if text.startswith("Task T-1."))


def convened(ledger: str) -> Any:
    done = invoke("log", "T-1", "--json", "--ledger", f"sqlite:///{ledger}")
    records = [json.loads(line) for line in done.lines]
    return next(r["data"] for r in records if r["type"] == "PanelConvened")


@pytest.mark.parametrize("committed", [False, True])
def test_no_second_folder_of_keys_reaches_a_judge(inside: Desk, committed: bool) -> None:
    assert invoke("init").code == 0
    assert invoke("init", "--ledger", "sqlite:///../second.db", "--keys", "kz").code == 0
    assert Path("kz/.gitignore").read_text() == "*\n"
    Path("kz/.gitignore").unlink()
    if committed:
        git(Path.cwd(), "add", "--all", "--force", "kz")
        git(Path.cwd(), "commit", "--quiet", "--message", "by mistake")
    judge()
    seen = evidence(".causebook/ledger.db")
    assert len(secrets("kz")) == 4
    assert not [text for text in seen if any(secret in text for secret in secrets("kz"))]
    assert "[withheld: it holds a private key]" in brief(".causebook/ledger.db")
    assert any("kz/engine.pem: withheld: it holds a private key" in text for text in seen)


@pytest.mark.parametrize("committed", [False, True])
def test_the_ledger_in_use_is_no_part_of_the_work(inside: Desk, committed: bool) -> None:
    at = ("--ledger", "sqlite:///ledger.db", "--keys", "../keys-of-its-own")
    assert invoke("init", *at).code == 0
    if committed:
        git(Path.cwd(), "add", "--all", "--force")
        git(Path.cwd(), "commit", "--quiet", "--message", "by mistake")
    judge(*at)
    assert convened("ledger.db")["workspace"]["dirty"] is False
    assert "ledger.db" not in brief("ledger.db")
    listed = [text for text in evidence("ledger.db") if text.startswith("a.txt")]
    assert listed == ["a.txt\n"]
    assert any("ledger.db: private: " in text for text in evidence("ledger.db"))


@pytest.mark.parametrize("committed", [False, True])
def test_the_file_with_the_passphrase_of_the_keys_is_no_part_of_the_work(
    inside: Desk, committed: bool
) -> None:
    Path("phrase").write_text("correct horse battery staple\n")
    at = ("--ledger", "sqlite:///../second.db", "--keys", "../k", "--passphrase-file", "phrase")
    assert invoke("init", "--encrypt", *at).code == 0
    if committed:
        git(Path.cwd(), "add", "--all", "--force")
        git(Path.cwd(), "commit", "--quiet", "--message", "by mistake")
    inside.script("spy", [say(None, *READS, *PHRASE_READS), verdict("pass")])
    judge(*at)
    seen = evidence("../second.db")
    assert not [text for text in seen if "battery" in text]
    assert sum("phrase: private: " in text for text in seen) == len(PHRASE_READS)


def test_work_whose_history_cannot_be_read_for_want_of_git_is_not_judged_without_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    before = desk.state()
    done = desk.judge("T-1", PASS)
    assert done.code == 66
    assert done.err.startswith("error: git: not found\nhint: install git")
    assert desk.state() == before | {
        "protocol.toml": desk.state()["protocol.toml"],
    }
    assert desk.judge("T-1", PASS, phase="pre_execute").code == 0


def test_work_whose_repository_is_broken_is_not_judged_without_its_change(desk: Desk) -> None:
    Path("work/.git/config").write_text("[broken")
    assert desk.judge("T-1", PASS).code == 65
    shutil.rmtree("work/.git")
    Path("work/.git").write_text("gitdir: /gone\n")
    done = desk.judge("T-1", PASS)
    assert done.code == 65
    assert "work/.git: is no git repository and names none" in done.err


def test_work_without_git_is_judged_and_it_is_said_that_no_change_is_shown(desk: Desk) -> None:
    shutil.rmtree("work/.git")
    done = desk.judge("T-1", PASS)
    assert done.code == 0
    assert done.err == "warning: work: no git working tree: judged without a change\n"
    assert "[no git working tree: there is no change to show" in brief("ledger.db")
    assert convened("ledger.db")["base"] is None
    assert desk.judge("T-2", PASS, phase="pre_execute").err == ""


def test_a_repository_without_a_commit_is_said_to_have_none(desk: Desk) -> None:
    shutil.rmtree("work/.git")
    git(Path("work"), "init", "--quiet")
    done = desk.judge("T-1", PASS)
    assert (done.code, done.err) == (0, "")
    text = brief("ledger.db")
    assert f"The change since {EMPTY}:\n[there is no commit yet: every file is new]\n" in text
    assert "\n+one\n" in text
    assert convened("ledger.db")["workspace"]["commit"] is None
