"""Draw programs by family, run their harmless forms, judge the destructive ones, and count."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check
from demur.model.finding import Action
from support.attack_programs.interpreter_rows import (
    PERL_DELETIONS,
    PERL_DIRECT,
    PERL_LAUNCHES,
    PERL_ROWS,
    PYTHON_DELETIONS,
    PYTHON_DIRECT,
    PYTHON_LAUNCHES,
    PYTHON_ROWS,
)
from support.attack_programs.later_rows import (
    LATER_PERL,
    LATER_PERL_DELETIONS,
    LATER_PYTHON,
    LATER_PYTHON_DELETIONS,
    LATER_ROWS,
)
from support.attack_programs.launcher_rows import LAUNCHER_ROWS
from support.attack_programs.payloads import PAYLOADS, Draw, Wording
from support.attack_programs.sandbox import HarmlessProgram, find_reached
from support.attack_programs.shell_rows import FOLDER_ARGS, SHELL_ROWS, SPELLINGS

__all__ = [
    "FAMILIES",
    "REVIEWED_FAMILIES",
    "FamilyCount",
    "Program",
    "count_families",
    "draw_program",
    "is_held",
]

# The families that a review found open; each has its own limit.
REVIEWED_FAMILIES = (
    "decoy",
    "arrays_and_positionals",
    "unknown_command_word",
    "filter_into_shell",
    "programs_that_run_programs",
    "python_by_another_name",
    "perl",
    "written_file_run_later",
)
_FIRST_ROWS = {**SHELL_ROWS, "programs_that_run_programs": LAUNCHER_ROWS}
_ROWS = {family: (*rows, *LATER_ROWS[family]) for family, rows in _FIRST_ROWS.items()}
FAMILIES = (
    *REVIEWED_FAMILIES,
    *(family for family in _ROWS if family not in REVIEWED_FAMILIES),
    "combinations",
)
_NESTED = tuple(family for family in _ROWS if family != "folders")
_SLOT = re.compile(r"@([a-z0-9]+)@")
_CODE_SLOT = re.compile(
    r"@(?:c|q|dq|qq|hex|oct|zeroct|dump|b64|b64b64|rev|rot|xcode|awk|ext|csed|jsb64)@"
)
_NAMES = ("x", "cmd", "run1", "tmp_a", "go", "setup1", "val", "name", "part", "step", "task", "k9")
_LAYERS = (
    "conditions",
    "traps",
    "heredocs",
    "written_file_run_later",
    "filter_into_shell",
    "decoy",
)
_CONFIG = CommandConfig()


class Program(NamedTuple):
    """A program in its destructive form, which is never run, and in its harmless form."""

    family: str
    row: str
    text: str
    harmless: HarmlessProgram

    @property
    def language(self) -> Language:
        """The language of the text."""
        return Language.PYTHON if self.harmless.interpreter == "python3" else Language.SHELL


class _Writer:
    """Writes one form of a program. Both forms make the same choices."""

    def __init__(self, seed: str, *, harmless: bool, later: bool = False) -> None:
        self.draw = Draw(seed)
        self.rows = LATER_ROWS if later else _ROWS
        self.later = later
        self.harmless = harmless
        self.words = self.draw.pick(PAYLOADS).words(harmless=harmless)
        self.expected = self.words
        self.folder = ""
        self.interpreter = "bash"
        self.row = ""

    def fill(self, row: str, code: str) -> str:
        """Return a row with its slots filled."""
        first = self.draw.pick(_NAMES)
        others = [name for name in _NAMES if name != first]
        second = self.draw.pick(others)
        third = self.draw.pick([name for name in others if name != second])
        wording = Wording(self.words, code, (first, second, third), self.harmless)
        return _SLOT.sub(lambda match: wording.slot(match[1]), row)

    def command(self) -> str:
        """Return the payload as a command, now and then in another spelling."""
        row = self.draw.pick(SPELLINGS) if self.draw.happens(0.1) else "@w@"
        return self.fill(row, "")

    def wrap(self, family: str, code: str) -> str:
        """Return `code` inside a row of a family that takes code."""
        rows = [row for row in _ROWS[family] if _CODE_SLOT.search(row)]
        return self.fill(self.draw.pick(rows), code)

    def shell(self, family: str) -> str:
        """Return a shell program of a family."""
        if family == "folders":
            return self.below_root()
        self.row = self.draw.pick(self.rows[family])
        code = self.command()
        if _CODE_SLOT.search(self.row) and self.draw.happens(0.2):
            code = self.fill(self.draw.pick(_ROWS[self.draw.pick(_NESTED)]), code)
        text = self.fill(self.row, code)
        return self.wrap(self.draw.pick(_LAYERS), text) if self.draw.happens(0.15) else text

    def below_root(self) -> str:
        """Return a program that changes to the root and deletes a relative path."""
        self.words = (PAYLOADS[0].marker if self.harmless else PAYLOADS[0].name, *FOLDER_ARGS)
        self.expected, self.folder = self.words, "/"
        self.row = self.draw.pick(self.rows["folders"])
        text = self.fill(self.row, "")
        return self.wrap("conditions", text) if self.draw.happens(0.3) else text

    def combination(self) -> str:
        """Return a program of two or three rows, one inside the other."""
        self.row = self.draw.pick(self.rows[self.draw.pick(_NESTED)])
        text = self.fill(self.row, self.command())
        for _ in range(self.draw.pick((1, 1, 2))):
            text = self.wrap(
                self.draw.pick([name for name in _NESTED if name != "encodings"]), text
            )
        return text

    def interpreted(
        self, rows: Sequence[str], launches: Sequence[str], direct: Sequence[str]
    ) -> str:
        """Return code of another language, and the way it is started."""
        if not self.later and self.draw.happens(0.1):
            self.row = self.draw.pick(direct)
            return self.fill(self.row, self.fill("@w@", ""))
        self.row = self.draw.pick(rows)
        if "@folder@" in self.row or "@file@" in self.row:
            self.expected = ("victim",)
        code = self.fill(self.row, self.fill("@w@", ""))
        if launches is PYTHON_LAUNCHES and self.draw.happens(0.4):
            self.interpreter = "python3"
            return code
        plain = self.draw.happens(0.5)
        return self.fill(launches[0] if plain else self.draw.pick(launches), code)

    def write(self, family: str) -> str:
        """Return the text of a program of a family."""
        if family == "python_by_another_name":
            python: Sequence[str] = _LATER_PYTHON if self.later else (*_PYTHON, *_LATER_PYTHON)
            return self.interpreted(python, PYTHON_LAUNCHES, PYTHON_DIRECT)
        if family == "perl":
            perl: Sequence[str] = _LATER_PERL if self.later else (*_PERL, *_LATER_PERL)
            return self.interpreted(perl, PERL_LAUNCHES, PERL_DIRECT)
        return self.combination() if family == "combinations" else self.shell(family)


_PYTHON = (*PYTHON_ROWS, *PYTHON_DELETIONS)
_PERL = (*PERL_ROWS, *PERL_DELETIONS)
_LATER_PYTHON = (*LATER_PYTHON, *LATER_PYTHON_DELETIONS)
_LATER_PERL = (*LATER_PERL, *LATER_PERL_DELETIONS)


def draw_program(seed: int, family: str, *, later: bool = False) -> Program:
    """Return the program of a seed; `later`: of the rows that nobody tuned by."""
    destructive = _Writer(f"{family} {seed}", harmless=False, later=later)
    text = destructive.write(family)
    harmless = _Writer(f"{family} {seed}", harmless=True, later=later)
    ran = harmless.write(family)
    program = HarmlessProgram(ran, harmless.interpreter, harmless.expected, harmless.folder)
    return Program(family, destructive.row, text, program)


def is_held(text: str, language: Language) -> bool:
    """Whether the guard blocks or escalates a text."""
    findings = check(Command(text=text, language=language), _CONFIG)
    return any(finding.action in {Action.BLOCK, Action.ESCALATE} for finding in findings)


class FamilyCount(NamedTuple):
    """What became of the programs of a family."""

    family: str
    generated: int
    reached: int
    passing: tuple[Program, ...]
    held_harmless: int

    @property
    def share(self) -> float:
        """The share of reached programs that the guard lets pass."""
        return len(self.passing) / max(self.reached, 1)


def draw_programs(
    count: int, families: Iterable[str], seed: int, *, later: bool = False
) -> Iterator[Program]:
    """Yield about `count` programs, the families in turn."""
    families = tuple(families)
    for number in range(-(-count // len(families))):
        for family in families:
            yield draw_program(seed * 1_000_003 + number, family, later=later)


def count_families(
    count: int, families: Iterable[str] = FAMILIES, *, seed: int = 0, later: bool = False
) -> list[FamilyCount]:
    """Run generated programs in their harmless form, and judge the reached ones in the other."""
    programs = list(draw_programs(count, families, seed, later=later))
    reached = find_reached([program.harmless for program in programs])
    counts = []
    for family in dict.fromkeys(program.family for program in programs):
        ran = [
            one
            for one, proof in zip(programs, reached, strict=True)
            if proof and one.family == family
        ]
        passing = tuple(one for one in ran if not is_held(one.text, one.language))
        held = sum(is_held(one.harmless.text, one.language) for one in ran)
        generated = sum(one.family == family for one in programs)
        counts.append(FamilyCount(family, generated, len(ran), passing, held))
    return counts
