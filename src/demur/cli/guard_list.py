"""`demur guard list`: list the built-in and installed guards and their codes."""

import argparse
import json
from collections.abc import Iterator
from typing import NamedTuple

from demur.cli.terminal import Paint, wrap_text
from demur.errors import Problem, one_line
from demur.guards.builtin import BUILTIN, load_builtin
from demur.guards.installed import find_installed

__all__ = ["configure_guard_list", "run_guard_list"]


class _GuardRow(NamedTuple):
    name: str
    surface: str
    source: str
    codes: tuple[str, ...]
    problems: tuple[Problem, ...] = ()


def configure_guard_list(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = "exit: 0 all guards are usable; 1 an installed guard is not; 2 usage"
    parser.add_argument("--json", action="store_true", help="a list of JSON objects")


def run_guard_list(args: argparse.Namespace) -> int:
    """Print the guards; 1 if one of them is not usable."""
    rows = list(_list_guards())
    if args.json:
        print(json.dumps([_guard_to_json(row) for row in rows], indent=2))
    else:
        _print_guards(rows, Paint())
    return int(any(row.problems for row in rows))


def _list_guards() -> Iterator[_GuardRow]:
    for builtin in BUILTIN:
        guard = load_builtin(builtin.surface)
        codes = tuple(map(str, guard.CODES))
        yield _GuardRow(str(builtin.surface), str(builtin.surface), "built in", codes)
    for one in find_installed():
        if one.guard is None:
            yield _GuardRow(one.name, "", one.package, (), one.problems)
        else:
            codes = tuple(map(str, one.guard.CODES))
            yield _GuardRow(one.name, str(one.guard.SURFACE), one.package, codes)


def _guard_to_json(row: _GuardRow) -> dict[str, object]:
    problems = [problem._asdict() for problem in row.problems]
    return {**row._asdict(), "codes": list(row.codes), "problems": problems}


def _print_guards(rows: list[_GuardRow], paint: Paint) -> None:
    usable = [row for row in rows if not row.problems]
    for row in usable:
        source = "" if row.source == "built in" else f" ({row.surface}, from {row.source})"
        print(f"{paint(one_line(row.name), 'bold')}{one_line(source)}")
        print(wrap_text(", ".join(row.codes), "  "))
    for row in rows:
        for problem in row.problems:
            print(
                f"{one_line(problem.where or '')}: {paint('error:', 'bold', 'red')} "
                f"{one_line(problem.problem)}"
            )
    installed = sum(row.source != "built in" for row in usable)
    broken = sum(bool(row.problems) for row in rows)
    count = f"{len(usable)} guards, {installed} of them installed"
    print(paint(f"{count}; {broken} cannot be used" if broken else count, "dim"))
