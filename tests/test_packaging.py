"""What is installed is what the tree holds, and what the documents point at is there."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import causebook

TREE = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = PROJECT["tool"]["setuptools"]
PAGES = sorted([TREE / "README.md", TREE / "CHANGELOG.md", *(TREE / "docs").rglob("*.md")])


def folder(package: str) -> Path:
    """Where the tree keeps a package: the longest name in `package-dir` that it begins with says so."""
    homes: dict[str, str] = SETUPTOOLS["package-dir"]
    above, below = package, list[str]()
    while above not in homes or (above == "causebook" and below):
        above, _, last = above.rpartition(".")
        below.insert(0, last)
    return TREE.joinpath(homes[above], *below)


def packages() -> dict[str, Path]:
    """Every package that the tree holds, and its folder."""
    homes = {TREE / home: name for name, home in SETUPTOOLS["package-dir"].items()}
    found: dict[str, Path] = {}
    for room in ("domain", "projections", "adapters"):
        for file in (TREE / room).rglob("__init__.py"):
            below: list[str] = []
            above = file.parent
            while above not in homes:
                below.insert(0, above.name)
                above = above.parent
            found[".".join([homes[above], *below])] = file.parent
    return found


def test_the_packages_installed_are_those_of_the_tree() -> None:
    """They are listed by hand, since the tree is flat: one left out is missing in the wheel alone."""
    listed: list[str] = SETUPTOOLS["packages"]
    assert sorted(listed) == sorted(packages())
    assert {name: folder(name) for name in listed} == packages()


def test_no_module_lies_where_no_package_is() -> None:
    folders = set(packages().values())
    for room in ("domain", "projections", "adapters"):
        for file in (TREE / room).rglob("*.py"):
            assert file.parent in folders, f"{file} has no __init__.py beside it"


def test_the_files_installed_beside_the_modules_are_there_and_are_all() -> None:
    named = {
        folder(package) / name
        for package, names in SETUPTOOLS["package-data"].items()
        for name in names
    }
    found = {
        file
        for home in packages().values()
        for file in home.iterdir()
        if file.is_file() and file.suffix not in (".py", ".pyc")
    }
    assert named == found
    assert SETUPTOOLS["package-data"]["causebook"] == ["py.typed"]


def test_every_public_name_is_there() -> None:
    names = causebook.__all__
    assert set(names) == {*causebook._HOMES, "__version__"}
    assert len(names) == len(set(names))
    assert names == sorted(names)
    for name in names:
        assert getattr(causebook, name) is not None
    for name, home in causebook._HOMES.items():
        module = importlib.import_module(f"causebook.{home}")
        assert getattr(causebook, name) is getattr(module, name)
        # Where it is defined, and not where it only passes through.
        assert getattr(module, name).__module__ == module.__name__


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = causebook.Nothing  # type: ignore[attr-defined]


def test_the_version_is_one() -> None:
    version = PROJECT["project"]["version"]
    assert version == causebook.__version__
    changes = (TREE / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?(Unreleased|{re.escape(version)})\]?", changes, re.MULTILINE)


def test_the_command_is_there() -> None:
    for target in PROJECT["project"]["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def prose(page: Path) -> str:
    """A page without its fenced blocks and its code."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TREE)))
def test_every_link_inside_of_the_tree_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(\s*<?([^)>\s]+)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(TREE), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_make_target_that_is_named_is_one() -> None:
    makefile = (TREE / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == targets
    named: set[str] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for pattern in (
            r"`make ([a-z-]+)[^`\n]*`",
            r"^    make ([a-z-]+)",
            r"<!-- .*make ([a-z-]+)",
        ):
            named |= set(re.findall(pattern, text, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
    assert set(re.findall(r'@echo "make ([a-z-]+)', makefile)) == targets - {"help"}
