"""The public face as a strict type checker sees it. `make lint` checks this file; nothing runs it."""

from __future__ import annotations

from causebook import (
    CausebookError,
    Judge,
    Ledger,
    Model,
    ModelFault,
    PanelDecided,
    ReadMemory,
    ReadResult,
    Report,
    Request,
    Response,
    Seat,
    TaskHandle,
    ToolCall,
    Workspace,
    verify,
)


def engine(model: Model, workspace: Workspace) -> str:
    """A loop of somebody's own."""
    try:
        with Ledger.open("sqlite:///ledger.db", keys="keys") as ledger:
            attempt = ledger.task("T-1", spec="Fix the login").start_attempt()
            attempt.dispatch_coder("my-coder", brief="Do it.")
            judges = [Judge("security", "my-model", ["No secrets."], tools=["read_file"])]
            with attempt.convene("post_execute", "any", judges) as panel:
                seat: Seat = panel.open("security")
                while (request := seat.next_request()) is not None:
                    try:
                        response: Response = model.complete(request)
                    except ModelFault as fault:
                        seat.fail([(fault, False)])
                        continue
                    for read in seat.respond(response):
                        result: ReadResult = workspace.read(read.tool, read.arguments)
                        seat.answer(result)
                decided: PanelDecided = panel.decide()
                return decided.action
    except CausebookError as error:
        code: int = error.exit_code
        return f"{error.message} {error.hint} {code}"


def operator(task: TaskHandle) -> str:
    """What is left after a crash and after an escalation."""
    task.take_over()
    return task.resolve("proceed", name="Ada Example", meaning="I accept the warning").decision


def coder(memory: ReadMemory, turn: int) -> int | None:
    """A loop that judges nothing."""
    read = memory.read("read_file", {"path": "a.py"})
    repeat = memory.repeat_of(read)
    if repeat is not None:
        return repeat.first_turn
    memory.remember(read, turn=turn, lines=(1, 80))
    return None


def answer(request: Request) -> Response:
    """What a model gives."""
    tools = [tool["function"]["name"] for tool in request.tools]
    return Response(None, (ToolCall("1", str(tools[0]), "{}"),), model=request.model)


def auditor(url: str, kept: bytes) -> list[str]:
    """Who checks a ledger, holding it against a checkpoint that they kept."""
    report: Report = verify(url, checkpoints=[kept], require_pin=True)
    if report.code == 0:
        return []
    return [f"{found.check} {found.place}: {found.expected}" for found in report.findings]
