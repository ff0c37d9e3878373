"""Find misused reason codes in a YAML file, such as a policy, by their keys.

The file is composed into nodes and never constructed: no tag runs, and every value keeps its
line and column.
"""

import bisect
import re
from collections.abc import Iterator

import yaml

from demur.codes.lint_rules import (
    CODE_RULES,
    SUPPRESSION_MARKER,
    CodeDiagnostic,
    LocatedDiagnostic,
    PlaceCertainty,
    PlaceKind,
    SourceComment,
    apply_suppressions,
    check_code,
    quote_text,
    unreadable_file,
)
from demur.codes.registry import Registry

CODE_KEYS = frozenset({"default_reason_code", "reason_code", "reason_codes"})

_POLICY_PLACE = PlaceKind(PlaceCertainty.CERTAIN)
_BLOCKS = frozenset({"|", ">"})
_NULL = "tag:yaml.org,2002:null"
# PyYAML counts lines by these, so comments are located the same way.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_HASH = re.compile(r"(?<!\S)#")


def check_yaml(source: bytes, registry: Registry) -> list[LocatedDiagnostic]:
    """Return the problems of codes in a YAML file; a syntax error is one too."""
    try:
        text = source.decode("utf-8-sig")
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        comments = list(_yaml_comments(text))
    except UnicodeDecodeError as error:
        before = bytes(error.object[: error.start]).decode().split("\n")
        return [unreadable_file("not utf-8 text", len(before), len(before[-1]) + 1)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        return [unreadable_file(f"not YAML: {error.problem or error.context}", *place)]
    except yaml.reader.ReaderError as error:
        place = _line_and_column(_line_starts(text), error.position)
        return [unreadable_file(f"not YAML: {error.reason}", *place)]
    except RecursionError:
        return [unreadable_file("not YAML: nested too deep")]
    except (OverflowError, ValueError) as error:
        # PyYAML does not wrap the error of a number or escape that is out of range.
        return [unreadable_file(f"not YAML: {error}")]
    found = (diagnostic for root in roots for diagnostic in _check_document(root, registry))
    return list(apply_suppressions(found, comments))


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def _line_and_column(starts: list[int], index: int) -> tuple[int, int]:
    line = bisect.bisect_right(starts, index)
    return line, index - starts[line - 1] + 1


def _check_document(root: yaml.Node, registry: Registry) -> Iterator[LocatedDiagnostic]:
    # An anchor may be used often, even inside itself: each node is visited once.
    waiting = [root]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield from _check_mapping(node, registry)
            waiting += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value


def _check_mapping(node: yaml.MappingNode, registry: Registry) -> Iterator[LocatedDiagnostic]:
    lines: dict[tuple[str, str], int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name = (key.tag, key.value)
        if name in lines:
            message = f"the key {quote_text(key.value)} appears twice: also in line {lines[name]}"
            rule = CODE_RULES["duplicate-key"]
            yield _locate_node(key, CodeDiagnostic(rule.id, message, rule.help))
        lines.setdefault(name, key.start_mark.line + 1)
        if key.value in CODE_KEYS:
            for item in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                # `NO` and `42` are taken as written: here they were meant as codes.
                if isinstance(item, yaml.ScalarNode) and item.tag != _NULL:
                    problems = check_code(item.value, _POLICY_PLACE, registry)
                    yield from (_locate_node(item, problem) for problem in problems)


def _locate_node(node: yaml.ScalarNode, diagnostic: CodeDiagnostic) -> LocatedDiagnostic:
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    # A block scalar ends at the next node; only its first line can have a comment.
    last = line if node.style in _BLOCKS else node.end_mark.line + 1
    return LocatedDiagnostic(line, column, *diagnostic, last)


def _yaml_comments(text: str) -> Iterator[SourceComment]:
    """Yield the comments of a readable text: a hash after a space, outside every scalar."""
    if SUPPRESSION_MARKER not in text:
        return
    scalars = [
        (_content_start(text, token), token.end_mark.index)
        for token in yaml.scan(text, Loader=yaml.SafeLoader)
        if isinstance(token, yaml.ScalarToken)
    ]
    lines = _line_starts(text)
    done = 0
    for found in _HASH.finditer(text):
        start = found.start()
        before = bisect.bisect_right(scalars, (start, len(text)))
        inside = before > 0 and start < scalars[before - 1][1]
        if start >= done and not inside:
            line_end = _LINE_END.search(text, start)
            done = line_end.start() if line_end else len(text)
            yield SourceComment(*_line_and_column(lines, start), text[start:done])


def _content_start(text: str, token: yaml.ScalarToken) -> int:
    """Return the start of a scalar's text. The header line of a block may have a comment."""
    start: int = token.start_mark.index
    if token.style in _BLOCKS and (line_end := _LINE_END.search(text, start)):
        return line_end.end()
    return start
