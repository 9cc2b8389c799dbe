"""causebook judges causebook: the repository of this checkout at HEAD, with the diff of its last commit.

Where the checkout holds the whole history its reads are answered from that; a shallow one, with a single
commit, is compared with nothing, and one without git is judged as the plain folder it then is.
"""

from __future__ import annotations

import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from causebook.domain.events import (
    EvaluationOpened,
    ModelResponded,
    PanelConvened,
    ReadAnswered,
    RepeatReadHit,
    TurnSpared,
)
from tests.adapters.ledgers import Home

from .desk import Desk, Line, call, verdict

CHECKOUT = Path(__file__).parents[2]
LAW = "domain/evaluation.py"
STREAM = "evaluation/self/1/post_execute/architecture"


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, clean at HEAD. `commits`: how many there are to go back to."""

    root: Path
    commits: int

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode()


def copied(folder: Path, *options: str) -> Checkout:
    """The checkout at HEAD, or as it is where it has no git."""
    root = folder / "checkout"
    if not (CHECKOUT / ".git").exists():
        unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build")
        shutil.copytree(CHECKOUT, root, ignore=unwanted)
        return Checkout(root, 0)
    assert shutil.which("git"), "this test needs git"
    command = ["git", "-c", "safe.directory=*", "clone", "--quiet", *options]
    subprocess.run([*command, f"file://{CHECKOUT}", root], check=True, capture_output=True)
    return Checkout(root, int(git(root, "rev-list", "--count", "HEAD")))


def answers(commits: int) -> list[Line]:
    """What an architect reads: the law, its neighbours, the history, the change; the law once more."""
    turns = [
        call(("list_files", {}), ("summarize_directory", {"directory": "domain"})),
        call(("read_file", {"path": LAW}), ("read_file", {"path": "domain/errors.py"})),
        call(("read_file_lines", {"path": "pyproject.toml", "start": 1, "end": 12})),
        call(("read_file", {"path": f"./{LAW}"})),
    ]
    if commits:
        turns.append(call(("git_log", {"n": 3}), ("git_show", {"ref": "HEAD", "path": LAW})))
    if commits > 1:
        turns.append(call(("read_diff_between_refs", {"ref1": "HEAD~1", "ref2": "HEAD"})))
    return [*turns, verdict("pass", "One file holds the law, and it does no IO.")]


def test_causebook_judges_its_own_last_commit(store_url: str, tmp_path: Path) -> None:
    judge(Desk.made(store_url, tmp_path), copied(tmp_path))


def test_a_shallow_checkout_of_itself_is_judged_against_nothing(tmp_path: Path) -> None:
    checkout = copied(tmp_path, "--depth", "1")
    assert checkout.commits <= 1
    judge(Desk.made(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path), checkout)


def test_itself_without_git_is_judged_as_a_folder(tmp_path: Path) -> None:
    root = copied(tmp_path).root
    shutil.rmtree(root / ".git", ignore_errors=True)
    judge(Desk.made(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path), Checkout(root, 0))


def judge(desk: Desk, checkout: Checkout) -> None:
    """Judge it, and hold every answer against what git and the files say."""
    protocol = desk.protocol("self", {"architecture": answers(checkout.commits)})
    done = desk.run(
        *("judge", "self", "--protocol", str(protocol), "--workspace", str(checkout.root)),
        *("--phase", "post_execute", "--spec", "Keep the rules in one pure place."),
    )
    assert done.returncode == 0, done.stdout
    # Only where there is no git to show a change from is there something to say.
    assert ("no git working tree" in done.stderr) == (not checkout.commits), done.stderr
    assert done.stderr.count("\n") == (not checkout.commits), done.stderr

    home = desk.home
    convened = next(e for e in home.events("task/self") if isinstance(e, PanelConvened))
    require_workspace(convened, checkout)
    require_brief(home, convened, checkout)
    require_reads(home, checkout)
    spared = [event for event in home.events(STREAM) if isinstance(event, TurnSpared)]
    repeats = [event for event in home.events(STREAM) if isinstance(event, RepeatReadHit)]
    assert [turn.turn for turn in spared] == [4]
    assert [(hit.target, hit.first_turn, hit.match) for hit in repeats] == [(LAW, 2, "exact")]

    home.require_evidence("self")
    assert home.require_intact().open_evaluations == ()
    for command, code in ((("verify",), 20), (("replay", "self"), 0), (("why", "self"), 0)):
        ended = desk.run(*command)
        assert (ended.returncode, ended.stderr) == (code, ""), ended.stdout


def require_workspace(convened: PanelConvened, checkout: Checkout) -> None:
    """What was judged is the commit at HEAD, against the one before it."""
    assert convened.root == str(checkout.root)
    assert convened.workspace is not None
    if checkout.commits == 0:
        assert convened.workspace.commit is None
        assert convened.workspace.tree is not None
        assert convened.base is None
        return
    assert convened.workspace.commit == checkout.git("rev-parse", "HEAD").strip()
    assert (convened.workspace.dirty, convened.workspace.tree) == (False, None)
    if checkout.commits > 1:
        assert convened.base == checkout.git("rev-parse", "HEAD~1").strip()


def require_brief(home: Home, convened: PanelConvened, checkout: Checkout) -> None:
    """Every judge is told what changed: each file, and the first hunks of the patch."""
    assert convened.brief is not None
    brief = body(home, convened.brief).decode()
    assert "Keep the rules in one pure place." in brief
    if checkout.commits > 1:
        changed = checkout.git("diff", "--name-only", "--no-renames", "HEAD~1", "HEAD").split()
        assert changed
        assert [path for path in changed if path not in brief] == []


def require_reads(home: Home, checkout: Checkout) -> None:
    """Each read is answered from the real tree and the real history."""
    events = home.events(STREAM)
    opened = events[0]
    assert isinstance(opened, EvaluationOpened)
    answered = [event for event in events if isinstance(event, ReadAnswered)]
    asked = sum(len(e.calls) for e in events if isinstance(e, ModelResponded))
    assert len(answered) == asked - 2  # the repeat, and the verdict
    assert not any(event.error for event in answered)
    told = {event.tool: body(home, event.result).decode() for event in answered}
    laws = [body(home, e.result).decode() for e in answered if e.target == LAW]
    assert laws == [(checkout.root / LAW).read_text()]
    assert LAW in told["list_files"].split()
    if checkout.commits:
        head = checkout.git("rev-parse", f"HEAD:{LAW}").strip()
        blobs = [e.blob for e in answered if e.tool == "read_file" and e.target == LAW]
        assert blobs == [head]
        assert told["git_show"] == checkout.git("show", f"HEAD:{LAW}")
        for commit in checkout.git("log", "-3", "--format=%H %s").splitlines():
            digest, _, subject = commit.partition(" ")
            assert digest[:7] in told["git_log"]
            assert subject in told["git_log"]
    if checkout.commits > 1:
        changed = checkout.git("diff", "--name-only", "--no-renames", "HEAD~1", "HEAD").split()
        assert changed[0] in told["read_diff_between_refs"]


def body(home: Home, commitment: str) -> bytes:
    with home.store() as store:
        row = store.evidence(commitment)
    assert row is not None
    return zlib.decompress(row.body)
