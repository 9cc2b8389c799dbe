"""A process that judges one task until it is killed, and tells of each thing once it is stored.

    python runner.py URL KEYS TASK SEED

On stdout, a line each, flushed: `ready` before the ledger is opened, then `STREAM VERSION` of the newest
record of each append that was acknowledged. It takes over what a runner before it left open. No model of its
panel ever gives in, but for that of the judge `quick`. It imports the library alone, so that it starts fast.
"""

from __future__ import annotations

import sys
import time
from random import Random
from typing import Any

from causebook.adapters.judging import hear_panel
from causebook.adapters.ledger import Ledger
from causebook.adapters.seat import Judge
from causebook.adapters.takeover import take_over
from causebook.adapters.writer import Written
from causebook.domain.errors import Busy
from causebook.domain.ports import ReadResult, Request, Response, ToolCall

JUDGES = ("quick", "slow", "slower", "slowest")


class Reader:
    """A model that reads on and on; at times, but never twice in a row, what it has read already."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)
        self.turns = self.read = 0
        self.repeated = True

    def complete(self, request: Request) -> Response:
        self.turns += 1
        self.repeated = not self.repeated and self.rng.random() < 0.4
        if self.repeated:
            numbers = [self.rng.randint(1, self.read)]
        else:
            numbers = [self.read + place for place in range(1, self.rng.choice((2, 2, 3)))]
            self.read = numbers[-1]
        calls = [ToolCall("c", "read_file", f'{{"path":"{number}.py"}}') for number in numbers]
        return Response(None, tuple(calls), model="reader", client="test", client_version="1")


class Quick(Reader):
    """One that decides on its third turn."""

    def complete(self, request: Request) -> Response:
        if self.turns < 2:
            return super().complete(request)
        text = '{"severity":"pass","justification":"It holds."}'
        return Response(None, (ToolCall("c", "submit_verdict", text),), model="reader")


class Files:
    def read(self, tool: str, arguments: Any) -> ReadResult:
        return ReadResult(f"{arguments}\n" * 20, lines=(1, 20))


def tell(stream: str, version: int) -> None:
    sys.stdout.write(f"{stream} {version}\n")
    sys.stdout.flush()


def main(url: str, keys: str, task: str, seed: str) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()

    def on_turn(judge: str, written: list[Written]) -> None:
        tell(written[-1].stream, written[-1].version)

    with Ledger.open(url, keys=keys) as ledger:
        handle = ledger.task(task, spec="Make it so")
        while True:
            try:
                take_over(handle.log)
                break
            except Busy:  # a server notices a moment later that a client is gone
                time.sleep(0.01)
                handle.log.reload()
        if handle.log.state.stage in ("unopened", "between"):
            attempt = handle.start_attempt()
        else:
            attempt = handle.open_attempt()
        tell(handle.log.stream, handle.log.tip[0])
        panel = attempt.convene(
            "post_execute",
            "unanimous",
            [Judge(name, "reader", ["It holds."], max_tool_turns=200) for name in JUDGES],
        )
        tell(handle.log.stream, handle.log.tip[0])
        models = {name: Quick(seed) if name == "quick" else Reader(seed + name) for name in JUDGES}
        hear_panel(panel, models, Files(), on_turn)


if __name__ == "__main__":
    main(*sys.argv[1:])
