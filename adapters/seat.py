"""One judge being heard: what its model is asked, what it answers, and the turn as it is stored.

The rules are `domain/evaluation.py`'s; a seat carries messages and evidence to them and their events to the
ledger, a whole turn in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..domain.admission import admit_fault, admit_response
from ..domain.canonical import encode, escaped_bytes
from ..domain.conversation import (
    VERDICT_ONLY_INSTRUCTION,
    answers,
    assistant_message,
    user_message,
)
from ..domain.errors import CausebookError, Misuse
from ..domain.evaluation import Evaluation, answer, fail, hear, open_turn
from ..domain.events import Event, Mandate, ModelCallFailed, ToolChoiceDeclined
from ..domain.evidence import text_bytes
from ..domain.limits import CRITERIA_BYTES_MAX, MODEL_BYTES_MAX, TURNS_DEFAULT, TURNS_MAX
from ..domain.ports import ModelFault, ReadResult, Request, Response, ToolCall
from ..domain.reads import Read, lines_fault
from ..domain.streams import require_id, shorten
from ..domain.tools import READ_TOOLS, SUBMIT_VERDICT, definition
from .ledger_stream import Tip
from .writer import Batch, Satchel, Writer, Written

DEFAULT_TOOLS: Final = tuple(READ_TOOLS)
Failures = Sequence[tuple[ModelFault, bool]]
"""Tries of one turn that brought no answer, in order: (fault, whether it declined tool_choice)."""


class Abandoned(CausebookError):
    """The panel was given up while this turn was under way; the turn is not stored."""


@dataclass(frozen=True)
class Judge:
    """One judge of a panel: who it is, which model it asks, what it judges by, what it may read with."""

    id: str
    model: str
    criteria: Sequence[str]
    tools: Sequence[str] = DEFAULT_TOOLS
    max_tool_turns: int = TURNS_DEFAULT

    def check(self) -> None:
        """Raise `Misuse` naming the first thing that is wrong with it."""
        require_id(self.id, "judge")
        where = f"judge {self.id}"
        if not 1 <= self.max_tool_turns <= TURNS_MAX:
            raise Misuse(
                f"{where}, max_tool_turns: expected 1 to {TURNS_MAX}, found {self.max_tool_turns}",
                hint=f"the default is {TURNS_DEFAULT}; a judge with no tools decides on its first turn",
            )
        if isinstance(self.criteria, str) or isinstance(self.tools, str):
            which = "criteria" if isinstance(self.criteria, str) else "tools"
            raise Misuse(
                f"{where}, {which}: expected a list of texts, found one text",
                hint=f"{which}=[...]; one text would be taken letter by letter",
            )
        for tool in self.tools:
            if tool not in READ_TOOLS:
                raise Misuse(
                    f"{where}, tools: expected read tools, found {shorten(tool)}",
                    hint="there are " + ", ".join(READ_TOOLS),
                )
        if len(set(self.tools)) != len(self.tools):
            raise Misuse(f"{where}, tools: expected each once", hint=", ".join(self.tools))
        lengths = [escaped_bytes(text) for text in self.criteria]
        if not lengths or not all(lengths):
            raise Misuse(f"{where}, criteria: expected texts in Unicode, at least one, none empty")
        if sum(length or 0 for length in lengths) > CRITERIA_BYTES_MAX or len(lengths) > 256:
            raise Misuse(
                f"{where}, criteria: expected at most {CRITERIA_BYTES_MAX} bytes in 256 texts",
                hint="put long material into the repository, where the judge can read it",
            )
        if not self.model or (escaped_bytes(self.model) or MODEL_BYTES_MAX + 1) > MODEL_BYTES_MAX:
            raise Misuse(f"{where}, model: expected a name of 1 to {MODEL_BYTES_MAX} bytes")

    def mandate(self) -> Mandate:
        """What `PanelConvened` says of it."""
        digest = hashlib.sha256(encode(list(self.criteria))).hexdigest()
        return Mandate(
            judge=self.id,
            model=self.model,
            criteria_digest=digest,
            tools=tuple(self.tools),
            max_tool_turns=self.max_tool_turns,
        )


@dataclass
class Seat:
    """One judge being heard. `closing` is the record that closed its evaluation, once there is one.

    `commit` stores a batch, unless the panel was given up meanwhile. `written`: the records of the turn
    stored last.
    """

    task: str
    stream: str
    writer: Writer
    commit: Callable[[Batch], list[Written]]
    evaluation: Evaluation
    messages: list[dict[str, object]]
    tip: Tip
    closing: Written | None = None
    written: list[Written] = field(default_factory=list)
    _opening: list[Event] = field(default_factory=list)
    _answer: ReadResult | None = None
    _underway: bool = False

    def next_request(self) -> Request | None:
        """What the model is to be asked now; None once the judge has decided or failed.

        Raises `Misuse` after a turn that was begun and not stored: what the judge was shown and what the
        record says of it would part. `Panel.interrupt` closes such an evaluation.
        """
        self._require_whole()
        if self.evaluation.closed is not None:
            return None
        if not self._opening:
            self._opening = open_turn(self.evaluation)
        messages = list(self.messages)
        if self.evaluation.withdrawn:
            messages.append(user_message(VERDICT_ONLY_INSTRUCTION))
        return Request(
            model=self.evaluation.opened.model,
            messages=tuple(messages),
            tools=tuple(definition(name) for name in self.evaluation.offered),
            tool_choice=SUBMIT_VERDICT if self.evaluation.withdrawn else None,
        )

    def respond(self, response: Response, *, failures: Failures = ()) -> Iterator[Read]:
        """Hear one response: yields each read to be run, to be answered with `answer` before the next.

        When it is exhausted, the whole turn and its evidence are stored, in one transaction. `failures` are
        the tries before it. Raises `Misuse` where the model was not asked as `next_request` said (rules 2
        and 9).
        """
        _require_response(response)
        sent = self._require_asked(failures)
        if response.tool_choice_sent != sent:
            raise Misuse(
                f"{self.stream}: expected a response with tool_choice_sent={sent}, found "
                f"{response.tool_choice_sent}",
                hint="send request.tool_choice where it is set, and say so: Response(tool_choice_sent=True)",
            )
        self._underway = True
        turn = self.evaluation.turn
        satchel = Satchel(self.task)
        tries = self._tries(failures, satchel)
        responded = admit_response(
            response,
            turn=turn,
            try_number=len(tries) + 1,
            required=SUBMIT_VERDICT if self.evaluation.withdrawn else None,
            commit=satchel.commit,
        )
        heard = hear(self.evaluation, responded)
        texts: dict[int, str] = {}
        try:
            place, read = next(heard)
            while True:
                self._answer = None
                yield read
                result = self._answered(read)
                texts[place] = result.text
                place, read = heard.send(
                    answer(
                        read,
                        turn=turn,
                        call=place,
                        result=satchel.commit(text_bytes(result.text)),
                        lines=result.lines,
                        cut=result.cut,
                        error=result.error,
                        blob=result.blob,
                    )
                )
        except StopIteration as stop:
            events: list[Event] = stop.value
        self.messages.append(assistant_message(turn, response))
        self.messages.extend(answers(turn, events, texts, self.evaluation.offered))
        self._save([*self._opening, *tries, *events], satchel)

    def answer(self, result: ReadResult) -> None:
        """Answer the read that `respond` yielded last."""
        self._answer = result

    def fail(self, failures: Failures) -> None:
        """The provider failed for good: record its tries, which closes the evaluation (rule 8).

        Raises `Misuse` where there is no try, or the last is to be asked again without tool_choice (rule 9).
        """
        self._require_asked(failures)
        if not failures or failures[-1][1]:
            raise Misuse(
                f"{self.stream}: expected the tries that failed, found "
                + ("one to be asked again without tool_choice" if failures else "none"),
                hint="fail() takes (fault, whether it declined tool_choice) for each try, in order",
            )
        self._underway = True
        satchel = Satchel(self.task)
        tries = self._tries(failures, satchel)
        self._save([*self._opening, *fail(self.evaluation, tries)], satchel)

    def _answered(self, read: Read) -> ReadResult:
        result = self._answer
        if result is None:
            raise ValueError(f"the read of {read.target!r} was not answered")
        fault = lines_fault(read, result.lines, error=result.error)
        if fault is not None:
            raise ValueError(f"the read of {read.target!r}: {fault}")
        return result

    def _require_asked(self, failures: Failures) -> bool:
        """Whether tool_choice was sent with the last try, of tries that keep to rule 9."""
        self._require_whole()
        if not self._opening:
            raise Misuse("no request is open", hint="call next_request() first")
        withdrawn = self.evaluation.withdrawn
        declined = [fault for fault, declined in failures if declined]
        if len(declined) > withdrawn or any(f.status not in (None, 400, 422) for f in declined):
            raise Misuse(
                f"{self.stream}: expected tool_choice declined at most once, where it was sent, with "
                "status 400 or 422",
                hint="failures are (fault, whether it declined tool_choice) for each try, in order",
            )
        return withdrawn and not declined

    def _require_whole(self) -> None:
        if self._underway:
            raise Misuse(
                f"{self.stream}: turn {self.evaluation.turn} was begun and not stored",
                hint="panel.interrupt() closes this evaluation as interrupted; what is stored stays",
            )

    def _tries(
        self, failures: Failures, satchel: Satchel
    ) -> list[ModelCallFailed | ToolChoiceDeclined]:
        return [
            admit_fault(
                fault,
                turn=self.evaluation.turn,
                try_number=number,
                declined=declined,
                commit=satchel.commit,
            )
            for number, (fault, declined) in enumerate(failures, 1)
        ]

    def _save(self, events: Sequence[Event], satchel: Satchel) -> None:
        batch = self.writer.batch()
        batch.after(self.stream, self.tip)
        batch.evidence.extend(satchel.rows)
        batch.extend(self.stream, events)
        written = self.commit(batch)
        self.tip = written[-1].tip
        self._underway = False
        self._opening = []
        if self.evaluation.closed is not None:
            self.closing = written[-1]
        self.written = written


def _require_response(response: Response) -> None:
    """Raise `Misuse` for what only looks like one, before anything of the turn is kept."""
    if not isinstance(response, Response):
        raise Misuse(
            f"expected a Response, found {type(response).__name__}",
            hint="Response(content, calls) is what the model answered: see README, the library",
        )
    for call in response.calls:
        if not isinstance(call, ToolCall) or not isinstance(call.arguments, str):
            found = type(call.arguments if isinstance(call, ToolCall) else call).__name__
            raise Misuse(
                f"calls: expected ToolCall, its arguments as JSON text, found {found}",
                hint="ToolCall(id, name, json.dumps(arguments)) where the model's client gives an object",
            )
