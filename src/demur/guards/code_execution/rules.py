"""The rules of this surface as one table: id, code, action, and a description.

A rule names a mechanism. The tables and checks find it; `rules/command_rules.json` holds its code
and action, so that one page shows everything that the guard can report.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from demur.codes.reason_code import ReasonCode
from demur.model.finding import Action
from demur.source.reading import YAML_LOADER

RULE_FILES = Path(__file__).parent.with_name("rules")


def parse_yaml(text: str) -> Any:
    """Return the data of a YAML text of our own."""
    return yaml.load(text, Loader=YAML_LOADER)  # noqa: S506 - a safe loader


@cache
def read_table(name: str) -> Any:
    """Return the data of a file of `rules/`."""
    text = (RULE_FILES / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else parse_yaml(text)


def join_patterns(patterns: str | list[str]) -> str:
    """Return one pattern for all of `patterns`."""
    return patterns if isinstance(patterns, str) else "|".join(patterns)


def compile_pattern(patterns: str | list[str], flags: int = 0) -> re.Pattern[str]:
    """Return one compiled pattern for all of `patterns`; it ignores case."""
    return re.compile(join_patterns(patterns), re.IGNORECASE | flags)


class CommandRule(NamedTuple):
    """The code and action of a rule, and its description."""

    code: ReasonCode
    action: Action
    words: str


COMMAND_RULES: dict[str, CommandRule] = {
    rule: CommandRule(ReasonCode(code), Action(action), words)
    for rule, (code, action, words) in read_table("command_rules.json").items()
}
