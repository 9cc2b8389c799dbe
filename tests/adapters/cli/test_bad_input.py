"""Bad input: a line that says what is wrong, one that says what to do, an exit code, and nothing changed."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.cli.conftest import PASS, Desk, Done, invoke
from tests.conftest import postgres_url

JUDGE = ("judge", "T-1", "--protocol", "protocol.toml", "--workspace", "work")


def refused(done: Done, code: int, *words: str) -> None:
    """One `error:` line, one `hint:` line, nothing on stdout."""
    lines = done.err.splitlines()
    assert done.code == code, done
    assert done.out == ""
    assert len(lines) == 2, done.err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")
    assert len(lines[1]) > len("hint: ")
    for word in words:
        assert word in lines[0], lines[0]


@pytest.mark.parametrize("command", [JUDGE, ("why", "T-1"), ("replay", "T-1"), ("log", "T-1")])
@pytest.mark.parametrize(
    "task",
    ["a/b", "a b", "a\nb", "x" * 300, "../up", "", "t\u202e", "t\x1b[31m", "T-1\x00", "-T"],
    ids=["slash", "space", "newline", "300", "dots", "empty", "bidi", "escape", "nul", "dash"],
)
def test_a_task_id_that_is_none(desk: Desk, command: tuple[str, ...], task: str) -> None:
    desk.protocol(PASS)
    before = desk.state()
    name, _, *rest = command
    refused(invoke(name, *rest, "--", task), 64, "expected")
    assert desk.state() == before


def test_a_task_id_with_a_leading_dash_is_said_to_come_after_two(desk: Desk) -> None:
    done = invoke("why", "-T")
    refused(done, 64, "no such option: -T")
    assert "after --" in done.err


@pytest.mark.parametrize(
    ("command", "code"),
    [((*JUDGE, "--keys", "loop"), 77), (("demo", "--keep", "loop/kept"), 73)],
)
def test_links_that_lead_round_in_a_circle(desk: Desk, command: tuple[str, ...], code: int) -> None:
    (desk.folder / "loop").symlink_to("loop")
    desk.protocol(PASS)
    before = desk.state()
    refused(invoke(*command), code, "loop")
    assert desk.state() == before


def test_gits_own_folder_is_no_work(desk: Desk) -> None:
    desk.protocol(PASS)
    before = desk.state()
    at = ("judge", "T-1", "--protocol", "protocol.toml", "--workspace", "work/.git")
    refused(invoke(*at), 64, "work/.git lies in git's own folder")
    assert desk.state() == before


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--name", "Ada\x1b[31m", "found a control character"),
        ("--name", "Ada\nTuring", "found a control character"),
        ("--meaning", "\udcc3", "found bytes that are none"),
        ("--name", " ", "not blank"),
    ],
)
def test_what_a_resolution_is_signed_with(desk: Desk, option: str, text: str, words: str) -> None:
    said = {"--name": "Ada", "--meaning": "risk accepted", "--decision": "proceed", option: text}
    options = [word for pair in said.items() for word in pair]
    refused(invoke("resolve", "T-1", *options), 64, option, words)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("why", "T-1", "--ledger", "sqlite:///work"), 65, "expected a file, found a folder"),
        (("judge", "T-1", "--protocol", "work", "--workspace", "work"), 66, "found a folder"),
    ],
)
def test_a_folder_where_a_file_is_expected(
    desk: Desk, command: tuple[str, ...], code: int, words: str
) -> None:
    refused(invoke(*command), code, words)


PROTOCOL = """policy = "unanimous"
phase = "post_execute"
[[judge]]
id = "one"
model = "script:pass.jsonl"
criteria = ["Good."]
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PROTOCOL + "colour = 1\n", ("protocol.toml, judge 1", "'colour'")),
        ("title = 1\n" + PROTOCOL, ("protocol.toml", "'title'")),
        ('policy = "any"\nphase = "post_execute"\n', ("judge", "1 to 32", "found 0")),
        (PROTOCOL + PROTOCOL[PROTOCOL.index("[[") :], ("judge 2, id", "found one")),
        (PROTOCOL + 'tools = ["rm"]\n', ("judge 1, tools", "'rm'")),
        (PROTOCOL + "max_tool_turns = 0\n", ("judge 1, max_tool_turns", "1 to 200", "found 0")),
        (PROTOCOL + "max_tool_turns = 201\n", ("judge 1, max_tool_turns", "found 201")),
        (PROTOCOL + "max_tool_turns = true\n", ("judge 1, max_tool_turns", "found true")),
        (PROTOCOL.replace('["Good."]', "[]"), ("judge 1, criteria", "an empty list")),
        (PROTOCOL.replace("unanimous", "most"), ("policy", "'most'")),
        (PROTOCOL.replace("post_execute", "after"), ("phase", "'after'")),
        (PROTOCOL + "x = =\n", ("protocol.toml, line 7", "TOML")),
    ],
)
def test_a_protocol_that_does_not_hold(desk: Desk, text: str, words: tuple[str, ...]) -> None:
    Path("protocol.toml").write_text(text)
    before = desk.state()
    refused(invoke(*JUDGE), 65, *words)
    assert desk.state() == before


def test_a_protocol_that_is_missing(desk: Desk) -> None:
    refused(invoke(*JUDGE), 66, "protocol.toml: expected a file with a protocol, found none")


def test_a_script_that_is_missing(desk: Desk) -> None:
    desk.protocol("gone")
    before = desk.state()
    refused(invoke(*JUDGE), 66, "gone.jsonl")
    assert desk.state() == before


def test_a_script_with_a_line_that_is_none(desk: Desk) -> None:
    Path("bad.jsonl").write_text('{"role": "assistant"')
    desk.protocol("bad")
    refused(invoke(*JUDGE), 65, "bad.jsonl:1")


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--workspace", "gone"), 66, ("gone", "expected a directory, found nothing")),
        (("--workspace", "protocol.toml"), 65, ("expected a directory, found a file",)),
        (("--workspace", "keys"), 64, ("the folder of the keys",)),
        (("--base", "no-such-ref"), 66, ("no-such-ref", "expected a commit")),
        (("--base", "--upload-pack=x"), 66, ("expected a commit",)),
        (("--base", "HEAD", "--phase", "pre_execute"), 64, ("--base",)),
        (("--phase", "later"), 64, ("--phase", "'later'")),
        (("--model", "j1"), 64, ("--model", "JUDGE=NAME")),
        (("--model", "j9=script:pass.jsonl"), 64, ("--model", "'j9'")),
        (("--model", "j1=a", "--model", "j1=b"), 64, ("--model", "twice")),
        (("--model", "j1=script:gone"), 66, ("gone",)),
        (("--spec", "@gone"), 66, ("gone",)),
        (("--spec", "\udcff"), 64, ("--spec", "Unicode")),
        (("--workspace", "\udcff"), 66, ("found nothing",)),
        (("--protocol", "\udcff"), 66, ("found none",)),
        (("--base", "\udcff"), 66, ("expected a commit",)),
        (("--model", "j1=\udcff"), 64, ("model",)),
        (("--attempt", "2"), 64, ("--attempt", "expected 1, found 2")),
        (("--attempt", "0"), 64, ("--attempt",)),
        (("--attempt", "x"), 64, ("--attempt",)),
        (("--lock-timeout", "nan"), 64, ("--lock-timeout",)),
        (("--lock-timeout", "-1"), 64, ("--lock-timeout",)),
        (("--passphrase-file", "gone", "--keys", "locked"), 66, ("gone",)),
        (("--nonsense",), 64, ("no such option",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_an_option_that_does_not_hold(
    desk: Desk, options: tuple[str, ...], code: int, words: tuple[str, ...]
) -> None:
    desk.protocol(PASS)
    if "locked" in options:
        encrypted(desk, "locked")
    before = desk.state()
    refused(invoke(*JUDGE, *options), code, *words)
    assert desk.state() == before


def encrypted(desk: Desk, folder: str, passphrase: str = "open sesame") -> None:
    """A ledger whose keys are encrypted: `FOLDER.db` and `FOLDER`."""
    Path("phrase").write_text(passphrase + "\n")
    url = f"sqlite:///{folder}.db"
    done = invoke("init", "--ledger", url, "--keys", folder, "--passphrase-file", "phrase")
    assert done.code == 0, done.err


def test_required_options_are_named(desk: Desk) -> None:
    refused(invoke("judge", "T-1"), 64, "--protocol")
    refused(invoke("resolve", "T-1"), 64, "--decision")
    refused(invoke("nonsense"), 64, "nonsense")


# ── ledgers ──────────────────────────────────────────────────────────────────────────────────────────

EVERY = [JUDGE, ("why", "T-1"), ("log",), ("tasks",), ("verify",), ("replay", "T-1"), ("rebuild",)]
EVERY += [
    ("keys", "list"),
    ("resolve", "T-1", "--decision", "halt", "--name", "A", "--meaning", "b"),
]
each_command = pytest.mark.parametrize("command", EVERY, ids=lambda command: " ".join(command[:2]))


@each_command
def test_a_ledger_that_is_not_there(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    before = desk.state()
    refused(invoke(*command, "--ledger", "sqlite:///gone.db"), 66, "no ledger is there")
    assert desk.state() == before


@each_command
def test_a_ledger_file_that_is_empty(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    Path("empty.db").touch()
    refused(invoke(*command, "--ledger", "sqlite:///empty.db"), 65, "empty")
    assert Path("empty.db").stat().st_size == 0


@each_command
def test_a_ledger_file_that_is_another_database(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    with contextlib.closing(sqlite3.connect("other.db")) as connection:
        connection.execute("CREATE TABLE songs (title)")
    before = desk.state()
    refused(invoke(*command, "--ledger", "sqlite:///other.db"), 65, "other.db")
    assert desk.state() == before


@each_command
def test_a_ledger_file_that_is_no_database(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    Path("text.db").write_text("hello, world " * 500)
    refused(invoke(*command, "--ledger", "sqlite:///text.db"), 65, "text.db")


@pytest.mark.parametrize("content", [b"x", b"\0", b"hello, world\n", b"\0" * 4096, None])
def test_no_ledger_is_founded_over_somebody_elses_file(desk: Desk, content: bytes | None) -> None:
    """SQLite takes a file of one byte for an empty one. `None`: a database of another program."""
    if content is None:
        with contextlib.closing(sqlite3.connect("other", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE t (a)")
    else:
        Path("other").write_bytes(content)
    before = desk.state()
    done = invoke("init", "--ledger", "sqlite:///other", "--keys", "made")
    refused(done, 73, "other")
    if content is None or len(content) == 1:
        assert "--ledger URL or CAUSEBOOK_LEDGER names another" in done.err
    assert desk.state() == before


@each_command
def test_a_ledger_of_a_newer_format(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as connection:
        connection.execute("UPDATE causebook_format SET version = 2")
    before = desk.state()
    refused(invoke(*command), 65, "expected store format 1, found 2")
    assert desk.state() == before


def test_a_ledger_on_a_read_only_mount(desk: Desk, read_only: Callable[[Path], Path]) -> None:
    assert desk.judge("T-1", PASS).code == 0
    url = f"sqlite:///{read_only(desk.folder)}/ledger.db"
    before = desk.state()
    for command in (("judge", "T-2", *JUDGE[2:]), ("rebuild",)):
        refused(invoke(*command, "--ledger", url), 74, "read-only")
    refused(invoke("init", "--ledger", f"{url}2", "--keys", "k2"), 73)
    assert desk.state() == before
    # Reading it is what a read-only mount is for.
    for command in (("why", "T-1"), ("log",), ("tasks",), ("replay", "T-1"), ("keys", "list")):
        assert invoke(*command, "--ledger", url).code == 0
    assert invoke("verify", "--ledger", url).code == 20
    assert desk.state() == before


def test_a_ledger_locked_for_longer_than_the_timeout(desk: Desk) -> None:
    desk.protocol(PASS)
    with contextlib.closing(sqlite3.connect("ledger.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        done = invoke(*JUDGE, "--lock-timeout", "0.05")
        connection.execute("ROLLBACK")
    lines = [line for line in done.err.splitlines() if not line.startswith("warning:")]
    refused(Done(done.code, done.out, "\n".join(lines)), 75, "locked", "0.05 s")
    assert invoke("tasks", "--json").json == {"tasks": []}


@pytest.mark.parametrize(
    "url",
    ["ledger.db", "mysql://a/b", "sqlite://ledger.db", "sqlite:///", "sqlite:///:memory:", ""],
)
def test_a_url_that_is_none(desk: Desk, url: str) -> None:
    refused(invoke("tasks", "--ledger", url), 64, "expected")


def test_a_ledger_that_was_founded_already(desk: Desk) -> None:
    before = desk.state()
    refused(invoke("init"), 73, "already")
    assert desk.state() == before


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_that_is_missing(desk: Desk) -> None:
    desk.protocol(PASS)
    Path("keys/engine.pem").unlink()
    before = desk.state()
    refused(invoke(*JUDGE), 77, "engine.pem", "not here")
    assert desk.state() == before


def test_a_key_that_others_can_read(desk: Desk) -> None:
    desk.protocol(PASS)
    Path("keys/engine.pem").chmod(0o644)
    before = desk.state()
    refused(invoke(*JUDGE), 77, "engine.pem", "0644")
    assert desk.state() == before


OTHER_KINDS = {
    "text": b"not a key\n",
    "certificate": b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "empty": b"",
}


@pytest.mark.parametrize("kind", [*OTHER_KINDS, "rsa"])
def test_a_key_of_another_kind(desk: Desk, kind: str) -> None:
    desk.protocol(PASS)
    Path("keys/engine.pem").write_bytes(OTHER_KINDS.get(kind) or _rsa())
    before = desk.state()
    refused(invoke(*JUDGE), 77, "engine.pem")
    assert desk.state() == before


def _rsa() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_key_encrypted_with_another_passphrase(desk: Desk) -> None:
    desk.protocol(PASS)
    encrypted(desk, "locked")
    Path("other").write_text("something else\n")
    before = desk.state()
    at = ("--ledger", "sqlite:///locked.db", "--keys", "locked")
    refused(invoke(*JUDGE, *at, "--passphrase-file", "other"), 77, "does not open this key")
    refused(invoke(*JUDGE, *at), 77, "encrypted")
    assert desk.state() == before
    assert invoke(*JUDGE, *at, "--passphrase-file", "phrase").code == 0


def test_keys_of_another_ledger(desk: Desk) -> None:
    desk.protocol(PASS)
    assert invoke("init", "--ledger", "sqlite:///two.db", "--keys", "two").code == 0
    before = desk.state()
    refused(invoke(*JUDGE, "--keys", "two"), 77, "may not sign", "no enrolment names this key")
    assert desk.state() == before


@pytest.mark.parametrize("fault", ["readable", "some", "file", "text"])
def test_init_looks_at_the_keys_before_it_makes_anything(desk: Desk, fault: str) -> None:
    keys = Path("keys")
    code = 77
    if fault == "readable":
        (keys / "root.pem").chmod(0o640)
    elif fault == "some":
        (keys / "log.pem").unlink()
        code = 73
    elif fault == "file":
        keys, code = Path("protocol.toml"), 73
        keys.touch()
    else:
        (keys / "log.pem").write_text("no key")
    before = desk.state()
    refused(invoke("init", "--ledger", "sqlite:///new.db", "--keys", str(keys)), code)
    assert desk.state() == before


def test_init_asks_nobody_where_nobody_is(desk: Desk) -> None:
    before = desk.state()
    done = invoke("init", "--ledger", "sqlite:///new.db", "--keys", "new", "--encrypt")
    refused(done, 64, "--encrypt", "no terminal")
    refused(invoke("init", "--ledger", "sqlite:///n.db", "--keys", "n", "--origin", "a b"), 64)
    assert desk.state() == before


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────


@each_command
def test_a_postgresql_that_is_down(desk: Desk, command: tuple[str, ...]) -> None:
    desk.protocol(PASS)
    url = postgres_url(str(desk.folder), "ledger", password="s3cr3t")
    done = invoke(*command, "--ledger", url)
    refused(done, 69)
    assert "s3cr3t" not in done.err


@pytest.mark.parametrize("command", [("tasks",), JUDGE])
def test_a_postgresql_that_refuses_the_login(
    desk: Desk, login_url: str, command: tuple[str, ...]
) -> None:
    desk.protocol(PASS)
    done = invoke(*command, "--ledger", login_url.replace("1%25@", "2%25@"))
    refused(done, 69, "authentication failed")
    for secret in ("p@ss", "p%40ss", "w?rd", "w%3Frd"):
        assert secret not in done.err


# ── resolutions ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [
        ("--decision", "maybe", "--name", "A", "--meaning", "b"),
        ("--decision", "halt", "--name", " ", "--meaning", "b"),
        ("--decision", "halt", "--name", "A", "--meaning", ""),
        ("--decision", "halt", "--name", "A" * 513, "--meaning", "b"),
        ("--decision", "halt", "--name", "A", "--meaning", "b", "--comment", "c" * 9000),
        ("--decision", "halt", "--name", "A\udcff", "--meaning", "b"),
    ],
)
def test_a_resolution_that_does_not_hold(desk: Desk, options: tuple[str, ...]) -> None:
    assert desk.judge("T-1", PASS, "warn").code == 11
    before = desk.state()
    refused(invoke("resolve", "T-1", *options), 64)
    assert desk.state() == before


@pytest.mark.parametrize("answer", ["blocker", "prose", "pass"])
def test_only_an_escalation_is_resolved(desk: Desk, answer: str) -> None:
    desk.judge("T-1", answer)
    before = desk.state()
    done = invoke("resolve", "T-1", "--decision", "proceed", "--name", "A", "--meaning", "b")
    refused(done, 64, "only an escalation can be resolved")
    assert desk.state() == before


def test_a_resolution_of_a_task_nobody_knows(desk: Desk) -> None:
    done = invoke("resolve", "T-9", "--decision", "proceed", "--name", "A", "--meaning", "b")
    refused(done, 66, "T-9")


def test_a_live_model_without_litellm_is_said_before_anything_is_recorded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.protocol(PASS)
    monkeypatch.setitem(sys.modules, "litellm", None)
    before = desk.state()
    refused(invoke(*JUDGE, "--model", "j1=openai/gpt-4o"), 64, "needs litellm")
    assert desk.state() == before


@pytest.mark.parametrize("what", ["database", "user"])
def test_a_postgresql_without_what_the_url_names_is_no_question_of_passwords(
    desk: Desk, postgres_host: str, what: str
) -> None:
    url = postgres_url(postgres_host, "not-there")
    if what == "user":
        url = postgres_url(postgres_host, "postgres", user="nobody-here")
    done = invoke("tasks", "--ledger", url)
    refused(done, 69, "does not exist")
    assert done.err.splitlines()[1] == f"hint: does the URL name the {what} that is meant?"


def test_an_extra_that_is_missing_is_found_in_the_readme(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.protocol(PASS)
    monkeypatch.setitem(sys.modules, "litellm", None)
    hint = invoke(*JUDGE, "--model", "j1=openai/gpt-4o").err.splitlines()[1]
    assert hint.startswith("hint: install causebook with its extra 'judge' (README, Install)")
    assert "pip install 'causebook" not in hint
