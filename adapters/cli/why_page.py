"""The page of `causebook why`: the answer, the reason, the panel, its judges, the turns, what it rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...domain.events import Event, PanelConvened, PanelDecided
from ...domain.quorum import CANONICAL, decide, halt_reason
from ...domain.streams import evaluation_stream
from ...projections.course import Course, Panel
from ...projections.facts import Entry, TaskFacts
from ...projections.timeline import timeline
from ..task_check import TaskCheck
from .due import due
from .terminal import Column, Part, Terminal, flowing, short
from .turns import show_turns

_LABEL_CELLS: Final = 10
_EARLIER_MAX: Final = 3
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_STYLES: Final = {"pass": "good", "warn": "warn", "blocker": "bad", "error": "bad"}


@dataclass(frozen=True)
class Answer:
    """What is known of a task."""

    task: str
    facts: TaskFacts
    told: Course
    payload: Mapping[str, Any]
    checked: TaskCheck
    newest: int

    @property
    def attempt(self) -> int | None:
        """The attempt that is shown."""
        number: int | None = self.payload["attempt"]
        return number


class Screen:
    """The page, part by part: what is printed follows from the answer alone."""

    def __init__(self, page: Terminal, answer: Answer, at: str) -> None:
        self.page, self.answer, self.at = page, answer, at
        self.task, self.told, self.payload = answer.task, answer.told, answer.payload
        self.due = due(answer.facts)

    def show(self, judge: str | None, *, whole: bool) -> None:
        """The whole screen. `judge`: whose turns are shown, and whether the `whole` of many."""
        self._headline()
        panel = self.told.panel
        if panel is not None:
            self.page.blank()
            self._judged(panel)
            self._panels(panel)
            self._judges(panel)
        if judge is not None and panel is not None:
            self._turns(panel, judge, whole=whole)
        self.page.blank()
        self._rests_on()
        self._verified()
        self._next()

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────

    def _headline(self) -> None:
        answer, style = self._verdict()
        attempt, phase = self.answer.attempt, self.payload["phase"]
        where = [f"attempt {attempt}"] if attempt is not None else []
        where += [phase] if phase else []
        at = f", at {', '.join(where)}" if where else ""
        self.page.heading(f"{self.task} {answer}", style, at)
        for line in self._reasons():
            self.page.paragraph(line)

    def _verdict(self) -> tuple[str, str]:
        payload, panel = self.payload, self.told.panel
        resolution = payload["resolution"]
        if payload["status"] == "blocked":
            halt = payload["halt_type"]
            raw = payload["raw_halt_type"]
            named = halt if raw in ("escalated", "blocked", halt) else f"{halt} ({raw})"
            if resolution is not None:
                return f"halted: {named}, resolved as {resolution['decision']}", "bad"
            return f"halted: {named}", "warn" if halt == "escalate" else "bad"
        if payload["status"] == "completed":
            if resolution is not None:
                return "passed: escalated, resolved as proceed", "good"
            noted = panel is not None and panel.decided and panel.decided.event.action == "log"
            return ("passed, with a warn noted" if noted else "passed"), "good"
        if panel is None:
            return "is open: nothing is judged yet", "warn"
        if panel.decided is None:
            return "is being judged", "warn"
        if self.due is None:
            return "is open: it may go on", "warn"
        return self._decided(panel.decided.event)

    def _decided(self, event: PanelDecided) -> tuple[str, str]:
        """What a panel came to, where the record of what follows from that is missing."""
        if event.action == "escalate":
            if self.payload["resolution"] is not None:
                return "passed: escalated, resolved as proceed", "good"
            return "halted by its panel: escalate", "warn"
        if event.action == "halt":
            raw = decide(event.policy, event.ballots).raw_halt_type
            return f"halted by its panel: {raw and CANONICAL[raw]}", "bad"
        noted = ", with a warn noted" if event.action == "log" else ""
        return f"passed its panel{noted}", "good"

    def _reasons(self) -> list[str]:
        payload, panel = self.payload, self.told.panel
        lines = []
        if self.due is not None:
            missing = f"{self.due[0].upper()}{self.due[1:]}"
            lines.append(f"{missing} is missing: the end of task/{self.task} was cut.")
        if payload["reason"]:
            lines.append(flowing(payload["reason"]))
        elif panel is not None and panel.decided is None:
            runner = panel.convened.event.runner
            done, all_ = len(payload["validator_results"]), len(panel.convened.event.judges)
            lines.append(
                f"{done} of {all_} judges have decided. Process {runner.process} on {runner.host} runs "
                "the panel; if it is gone, the next causebook judge closes it."
            )
        elif panel is not None and panel.decided is not None:
            counts = panel.decided.event
            if counts.action in ("halt", "escalate") and payload["resolution"] is None:
                return [*lines, halt_reason(counts)]
            lines.append(
                f"{counts.policy} needs {counts.required} of {counts.counts.total} to pass, and "
                f"{counts.counts.pass_} did."
            )
        resolution = payload["resolution"]
        if resolution is not None:
            comment = f" {flowing(resolution['comment'])}" if resolution["comment"] else ""
            lines.append(
                f"{flowing(resolution['name'])} decided {resolution['decision']}: "
                f"{flowing(resolution['meaning'])}.{comment}"
            )
        return lines

    # ── the panel ────────────────────────────────────────────────────────────────────────────────────

    def _label(self, label: str, *parts: Part) -> None:
        self.page.line(f"  {label:<{_LABEL_CELLS}} ", *parts)

    def _judged(self, panel: Panel) -> None:
        """What lay before the judges, and when they were convened."""
        convened = panel.convened
        said = [*_tree(convened.event), f"{convened.record.at[:16].replace('T', ' ')} UTC"]
        label, line = "judged", said[0]
        for words in said[1:]:
            if self.page.cells(f"{line}, {words}") + 14 > self.page.width:
                self._label(label, f"{line},")
                label, line = "", words
            else:
                line = f"{line}, {words}"
        self._label(label, line)

    def _panels(self, panel: Panel) -> None:
        attempt = self.told.attempts[-1]
        for earlier in attempt.panels[:-1]:
            self._panel(earlier, earlier.convened.event.phase.replace("_execute", ""))
            if earlier.resolution is not None:
                said = earlier.resolution.event
                self._label("", f"resolved: {said.decision}, by {flowing(said.name)}")
        self._panel(panel, "panel")
        history = self.payload["attempts"]["history"]
        before = [h for h in history if h["attempt"] != self.answer.attempt]
        if before:
            named = [f"attempt {h['attempt']}, {h['outcome']}" for h in before[-_EARLIER_MAX:]]
            if len(before) > len(named):
                named.insert(0, f"{len(before) - len(named)} more")
            self._label("earlier", "; ".join(named))
        number, newest = self.answer.attempt or 0, self.answer.newest
        if newest > number:
            later = f"attempt {newest}" if newest == number + 1 else f"attempts to {newest}"
            label = f"  {'later':<{_LABEL_CELLS}} {later}: "
            self.page.command(label, f"causebook why {self.task}{self.at}")

    def _panel(self, panel: Panel, label: str) -> None:
        convened = panel.convened.event
        said = f"{convened.policy} of {len(convened.judges)}"
        if panel.decided is None:
            self._label(label, f"{said}, sitting")
            return
        event = panel.decided.event
        counts = event.counts
        needed = "" if event.policy == "unanimous" else f", {event.required} needed"
        style = {"proceed": "good", "log": "good", "escalate": "warn", "halt": "bad"}[event.action]
        self._label(
            label,
            f"{said}: pass {counts.pass_}, warn {counts.warn}, blocker {counts.blocker}{needed} → ",
            (event.action, style),
        )

    def _judges(self, panel: Panel) -> None:
        self.page.blank()
        rows: list[list[Part]] = []
        for mandate in panel.convened.event.judges:
            line = self._timeline(panel, mandate.judge)
            if line is None:
                rows.append([mandate.judge, "", "", "", "", _model(mandate.model)])
                continue
            ending = line["ending"]
            verdict = "" if ending is None else "error" if ending["error"] else ending["severity"]
            rows.append(
                [
                    mandate.judge,
                    (verdict, _STYLES.get(verdict, "")),
                    f"{line['turns_used']}/{line['max_tool_turns']}",
                    str(len(line["turns"])),
                    _withdrawn(line),
                    _model(mandate.model),
                ]
            )
        columns = [
            Column("judge", whole=True),
            Column("verdict"),
            Column("charged", right=True),
            Column("turns", right=True),
            Column("tools withdrawn"),
            Column("model", flexible=True),
        ]
        self.page.table(columns, rows)

    def _timeline(self, panel: Panel, judge: str) -> dict[str, Any] | None:
        convened = panel.convened.event
        stream = evaluation_stream(self.task, convened.attempt, convened.phase, judge)
        entries = self.answer.facts.evaluations.get(stream)
        return timeline(entries) if entries else None

    def _turns(self, panel: Panel, judge: str, *, whole: bool) -> None:
        line = self._timeline(panel, judge)
        if line is None:
            return
        self.page.blank()
        show_turns(self.page, line, whole=whole)
        escalated = panel.decided is not None and panel.decided.event.action == "escalate"
        against = "warn" if escalated else "blocker"
        others = [
            result["judge"]
            for result in self.payload["validator_results"]
            if result["judge"] != judge and result["severity"] == against
        ]
        if others:
            what = "approval also withheld by" if escalated else "also against it"
            self.page.paragraph(
                f"{what}: {', '.join(others)}; --judge JUDGE shows the turns of another", indent=5
            )

    # ── what it rests on ─────────────────────────────────────────────────────────────────────────────

    def _rests_on(self) -> None:
        label = "rests on"
        for item in self.payload["evidence"]:
            entry = self._entry(item["stream"], item["version"])
            kind = "missing" if entry is None else entry.record.type
            place = f"{item['stream']} v{item['version']} {kind}"
            digest = short(item["digest"])
            room = min(self.page.width, 100) - 13 - self.page.cells(digest)
            if self.page.cells(place) + 2 <= room:
                self._label(label, self.page.pad(place, room), (digest, "dim"))
            else:
                self._label(label, place)
                self.page.line(" " * (13 + room), (digest, "dim"))
            label = ""

    def _entry(self, stream: str, version: int) -> Entry[Event] | None:
        facts = self.answer.facts
        own = bool(facts.own) and facts.own[0].record.stream == stream
        entries = facts.own if own else facts.evaluations.get(stream, ())
        return entries[version - 1] if version <= len(entries) else None

    def _verified(self) -> None:
        checked = self.answer.checked
        if checked.holds:
            said = f"{checked.records:,} records: signatures, chains, law and evidence hold"
            self._label("verified", (said, "good"))
            if "erased" in checked.evidence:
                self._label("evidence", checked.evidence)
        elif checked.records_hold:
            said = f"{checked.records:,} records: signatures, chains and law hold"
            self._label("verified", (said, "good"), ("; evidence does not", "bad"))
        else:
            self._label("verified", (f"no: {checked.meaning}, see above", "bad"))

    def _next(self) -> None:
        task, at = self.task, self.at
        waiting = self.payload["halt_type"] == "escalate" and self.payload["resolution"] is None
        label = f"  {'next':<{_LABEL_CELLS}} "
        if waiting and self.answer.newest == self.answer.attempt:
            options = "--decision proceed|halt|reject --name NAME --meaning TEXT"
            self.page.command(label, f"causebook resolve {task} {options}{at}")
            return
        first, second = f"causebook evidence {task}{at}", f"causebook replay {task}{at}"
        if self.page.cells(first + second) + 16 <= self.page.width:
            self._label("next", f"{first}   {second}")
        else:
            self.page.command(label, first)
            self.page.command(" " * len(label), second)
        if self.payload["status"] == "blocked" and self.answer.newest == self.answer.attempt:
            again = f"  {f'attempt {self.answer.newest + 1}':<{_LABEL_CELLS}} "
            options = f"--protocol FILE --workspace DIR{at}"
            self.page.command(again, f"causebook judge {task} {options}")


def _tree(convened: PanelConvened) -> list[str]:
    """The working tree that was judged, in words; empty where the engine did not say."""
    facts = convened.workspace
    if facts is None:
        return []
    tree = "" if facts.tree is None else f"tree {short(facts.tree)}"
    if facts.commit is None:
        said = [tree or "no tree", "no git commit"]
    elif facts.dirty:
        said = [
            f"commit {short(facts.commit)} and changes not committed",
            *([tree] if tree else []),
        ]
    else:
        said = [f"commit {short(facts.commit)}", "clean"]
    base = convened.base
    if base is not None:
        said.append(f"base {short(base) if _COMMIT.fullmatch(base) else base}")
    return said


def _model(asked: str) -> str:
    """The model that was asked for. Of a script it matters only that it is one."""
    return "script" if asked.startswith("script:") else asked


def _withdrawn(line: Mapping[str, Any]) -> str:
    for turn in line["turns"]:
        if turn["withdrawn"] is not None:
            return f"turn {turn['turn']}, {turn['withdrawn']['reason'].replace('_', ' ')}"
    return ""
