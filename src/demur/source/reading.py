"""Read strict YAML whose values know their line and column.

It is stricter than YAML 1.1: duplicate keys, aliases and words that YAML silently converts (`no`,
`12:30`) are refused with a hint.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from sys import float_info
from typing import TYPE_CHECKING, Any

import yaml

from demur.errors import ManyProblemsError, Problem
from demur.source.item import SourceItem

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NUMBERS = {f"{_TAG}int": int, f"{_TAG}float": float}
_BOOLEANS = {"true": True, "false": False}
_TRUTHS = {"true", "yes", "on", "y"}
# Octal, sexagesimal and underscored numbers differ between YAML parsers.
_DECIMAL = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
# Larger numbers have no canonical form.
_MAX_NUMBERS = {f"{_TAG}int": 2**53 - 1, f"{_TAG}float": float_info.max}
_MAX_DEPTH = 50


class SourceError(ManyProblemsError):
    """A text that is not valid strict YAML."""


def read_text(
    path: "Path | str | Traversable", what: str, error: type[ManyProblemsError] = SourceError
) -> str:
    """Return the text of the file at `path`; errors call it `what`.

    Raises:
        ManyProblemsError: As `error`: there is no such file, or it is no UTF-8 text.
    """
    try:
        return (Path(path) if isinstance(path, str) else path).read_text(encoding="utf-8")
    except (OSError, ValueError) as caught:
        reason = (getattr(caught, "strerror", None) or "").lower() or "not UTF-8 text"
        problem = Problem(str(path), f"cannot read the {what}: {reason}")
        raise error.from_problems([problem]) from caught


def read_source(name: str, text: str, error: type[ManyProblemsError] = SourceError) -> SourceItem:
    """Return the one YAML document in `text`.

    Raises:
        ManyProblemsError: As `error`: it is not YAML, or not the plain YAML that demur reads.
    """
    try:
        problems = list(_check_nesting(name, text))
        node = None if problems else yaml.compose(text, Loader=YAML_LOADER)
    except yaml.MarkedYAMLError as caught:
        place = name if caught.problem_mark is None else _format_place(name, caught.problem_mark)
        raise error.from_problems([Problem(place, f"not YAML: {caught.problem}")]) from caught
    except (yaml.YAMLError, ValueError) as caught:
        problem = Problem(name, f"not YAML: {str(caught).splitlines()[0]}")
        raise error.from_problems([problem]) from caught
    if problems:
        raise error.from_problems(problems)
    if node is None:
        raise error.from_problems([Problem(name, "the file is empty")])
    item = _YamlReader(name).build_item(node)
    item.raise_problems(error)
    return item


def _check_nesting(name: str, text: str) -> Iterator[Problem]:
    """Yield problems to find before the tree is built: aliases and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=YAML_LOADER):
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            problem = "YAML anchors and aliases are not used here"
            yield Problem(_format_place(name, event.start_mark), problem, "write it out")
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                yield Problem(_format_place(name, event.start_mark), "nested too deep")
                return


def _format_place(name: str, mark: Any) -> str:
    return f"{name}:{mark.line + 1}:{mark.column + 1}"


class _YamlReader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []

    def place_of(self, node: yaml.Node) -> str:
        return _format_place(self.name, node.start_mark)

    def report_at(self, node: yaml.Node, problem: str, help_text: str | None = None) -> None:
        self.problems.append(Problem(self.place_of(node), problem, help_text))

    def build_item(self, node: yaml.Node) -> SourceItem:
        where = self.place_of(node)
        if isinstance(node, yaml.ScalarNode):
            return SourceItem(self._read_scalar(node), where, {}, self.problems)
        if node.tag not in {f"{_TAG}map", f"{_TAG}seq"}:
            self.report_at(node, f"the tag `{node.tag}` is not used here", "leave it out")
        if isinstance(node, yaml.SequenceNode):
            items = [self.build_item(child) for child in node.value]
            return SourceItem(items, where, {}, self.problems)
        keys: dict[str, str] = {}
        return SourceItem(dict(self._pairs(node, keys)), where, keys, self.problems)

    def _pairs(self, node: yaml.Node, keys: dict[str, str]) -> Iterator[tuple[str, SourceItem]]:
        for key, value in node.value:
            name = str(key.value)
            if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}merge":
                self.report_at(key, "a key must be a plain word")
            elif name in keys:
                self.report_at(key, f"the key `{name}` appears twice", f"first at {keys[name]}")
            else:
                keys[name] = self.place_of(key)
                yield name, self.build_item(value)

    def _read_scalar(self, node: yaml.ScalarNode) -> Any:
        text = str(node.value)
        if node.tag == f"{_TAG}str":
            return text
        if node.tag == f"{_TAG}null":
            return None
        if node.tag == f"{_TAG}bool":
            return self._read_boolean(node, text)
        if node.tag in _NUMBERS:
            return self._read_number(node, text)
        self.report_at(node, f"`{text}` is read as {node.tag.rpartition(':')[2]}", "quote it")
        return None

    def _read_boolean(self, node: yaml.ScalarNode, text: str) -> bool | None:
        if text not in _BOOLEANS:
            meant = "true" if text.lower() in _TRUTHS else "false"
            self.report_at(node, f"`{text}` is read as {meant}", f'write "{text}" or {meant}')
        return _BOOLEANS.get(text)

    def _read_number(self, node: yaml.ScalarNode, text: str) -> float | None:
        try:
            number = _NUMBERS[node.tag](text) if _DECIMAL.fullmatch(text) else None
        except ValueError:
            number = None
        if number is None:
            self.report_at(node, f"`{text}` is no plain number", "write it in decimal, or quote it")
        elif abs(number) > _MAX_NUMBERS[node.tag]:
            self.report_at(node, f"`{text}` is too large a number", "quote it if it is a text")
        return number
