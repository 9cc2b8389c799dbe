"""`--help`, as a person would write it: usage, what it does, arguments, options, where to read on.

Typer's own differs from version to version, and spells types and ranges for a machine.
"""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

READ_ON: Final = "Exit codes, and what --json prints: docs/guide.md."
HELP_OPTIONS: Final = ("-h", "--help")


class Command(TyperCommand):
    """One command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Its arguments by name, then that there are options."""
        pieces = []
        for param in self.params:
            if param.param_type_name == "argument":
                name = _metavar(param)
                pieces.append(name if param.required else f"[{name}]")
        return [*pieces, "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Its arguments and options, each with what holds where it is left out."""
        params = self.get_params(ctx)
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [_row(param) for param in params if param.param_type_name == kind]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Where to read on."""
        _read_on(formatter, READ_ON)


class Group(TyperGroup):
    """A command that has commands."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands after its name."""
        return ["COMMAND", "[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Its commands, then its options."""
        self.format_commands(ctx, formatter)
        with formatter.section("Options"):
            formatter.write_dl([_row(param) for param in self.get_params(ctx)])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Where to read on."""
        _read_on(formatter, f"{ctx.command_path} COMMAND --help tells more of each. {READ_ON}")


def _read_on(formatter: Any, text: str) -> None:
    formatter.write_paragraph()
    formatter.write_text(text)


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _row(param: Any) -> tuple[str, str]:
    told = str(getattr(param, "help", None) or "")
    if param.param_type_name == "argument":
        return _metavar(param), told
    names = ", ".join(sorted(param.opts, key=len))
    if param.metavar and not param.is_flag:
        names += f" {param.metavar}"
    if set(param.opts) == set(HELP_OPTIONS):
        return names, "Show this and leave."
    return names, f"{told} {_default(param)}".rstrip()


def _default(param: Any) -> str:
    """What holds where an option is left out, as a sentence; empty where its help says it."""
    if param.required:
        return "Required."
    default = param.default
    known = isinstance(default, str) and bool(default)
    if param.envvar and known:
        variable = param.envvar if isinstance(param.envvar, str) else param.envvar[0]
        return f"By default {variable}, else {default}."
    return f"By default {default}." if known else ""
