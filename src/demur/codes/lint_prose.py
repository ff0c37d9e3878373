"""Find refusals in prose, and refusal lines whose detail says nothing.

A program that raises, returns or logs `blocked by policy` refuses without a code. Only texts with
a registered legacy phrase count, and texts of exceptions that by their name refuse, so that an
ordinary error is not reported. A detail says nothing if it is empty or repeats the code.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from demur.codes.lint_places import DemurImports, built_constants, literal_text, member_name
from demur.codes.lint_rules import CODE_RULES, CodeDiagnostic, quote_text
from demur.codes.refusal_line import find_markers
from demur.codes.registry import Registry

_LOG_METHODS = frozenset({"critical", "error", "exception", "fatal", "info", "warn", "warning"})
# The position of the detail among the arguments.
_DETAIL = {"format_refusal": 1, "from_code": 1}
_CODE_KEYWORDS = frozenset({"code", "codes", "reason_code", "reason_codes"})
_REFUSING_ERROR = re.compile(
    r"(?:Permission|Denied|Refused|Refusal|Blocked|Forbidden|Guard(?:rail)?|Policy\w*)(?:Error|Exception)?\Z"
)
_SAYS_NO = re.compile(
    r"\b(?:refused|(?<!permission )denied|blocked|rejected|forbidden|prohibited|disallowed"
    r"|not (?:allowed|permitted|authori[sz]ed)|violat(?:es|ion))\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")
_USELESS = frozenset(
    {
        "",
        "blocked",
        "denied",
        "detail",
        "error",
        "failed",
        "fixme",
        "forbidden",
        "n a",
        "na",
        "no",
        "no detail",
        "no reason",
        "none",
        "not allowed",
        "null",
        "reason",
        "refused",
        "rejected",
        "todo",
        "unknown",
        "xxx",
    }
)


class ProseProblem(NamedTuple):
    """An expression with a diagnostic."""

    node: ast.expr
    diagnostic: CodeDiagnostic


def may_refuse(text: str, registry: Registry) -> bool:
    """Return whether a source may hold a refusal in prose. Cheap; most sources hold none."""
    return _SAYS_NO.search(text) is not None or registry.code_of_phrase(text) is not None


def prose_problems(nodes: Iterable[ast.AST], registry: Registry) -> Iterator[ProseProblem]:
    """Yield the texts that refuse in prose: raised, returned, logged or printed."""
    for node in nodes:
        match node:
            case ast.Raise(exc=ast.Call() as call):
                yield from _raised_prose(call, registry)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                yield from _check_prose(value, registry)
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in _LOG_METHODS:
                yield from _check_prose(first, registry)
            case ast.Call(func=ast.Name(id="print"), args=[first, *_]):
                yield from _check_prose(first, registry)
            case _:
                pass


def _raised_prose(call: ast.Call, registry: Registry) -> Iterator[ProseProblem]:
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    named = {keyword.arg for keyword in call.keywords}
    # An exception that carries a code beside its words is what the rule asks for.
    if not named.isdisjoint(_CODE_KEYWORDS) or any(_mentions_code(value) for value in values):
        return
    refuses = _REFUSING_ERROR.search(_called_name(call.func)) is not None
    for value in values:
        yield from _check_prose(value, registry, refuses=refuses)


def _check_prose(
    node: ast.expr, registry: Registry, *, refuses: bool = False
) -> Iterator[ProseProblem]:
    text = literal_text(node) or built_constants(node)
    # A name such as `guardrail_intervened` is no sentence. A marked line is another rule's.
    if text is None or " " not in text.strip() or next(find_markers(text), None) is not None:
        return
    code = registry.code_of_phrase(text)
    if code is None and not (refuses and _SAYS_NO.search(text)):
        return
    rule = CODE_RULES["prose-refusal"]
    advice = f"{rule.help}; `{code}` is what it says today" if code else rule.help
    message = f"a refusal without a code: {quote_text(text)}"
    yield ProseProblem(node, CodeDiagnostic(rule.id, message, advice))


def _mentions_code(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Attribute | ast.Name)
        and (getattr(part, "attr", "") or getattr(part, "id", "")) == "ReasonCode"
        for part in ast.walk(node)
    )


def _called_name(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", None) or ""


def detail_problems(
    nodes: Iterable[ast.AST], imports: DemurImports, registry: Registry
) -> Iterator[ProseProblem]:
    """Yield the calls of `format_refusal` and `Refusal.from_code` whose detail says nothing."""
    for node in nodes:
        if isinstance(node, ast.Call) and _called_name(node.func) in _DETAIL:
            path = imports.resolve_path(node.func)
            if path is None and _called_name(node.func) != "format_refusal":
                continue
            detail = _detail_argument(node)
            if detail is not None and _says_nothing(node, detail, imports, registry):
                rule = CODE_RULES["empty-detail"]
                shown = quote_text(detail)
                message = f"the detail {shown} says nothing" if detail else "the detail is empty"
                yield ProseProblem(node, CodeDiagnostic(rule.id, message, rule.help))


def _detail_argument(call: ast.Call) -> str | None:
    """Return the constant detail of a call, or None if it is left out or unknown."""
    if any(isinstance(value, ast.Starred) for value in call.args):
        return None
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "detail"]
    given = [*call.args[_DETAIL[_called_name(call.func)] :], *named]
    return literal_text(given[0]) if given else None


def _says_nothing(call: ast.Call, detail: str, imports: DemurImports, registry: Registry) -> bool:
    folded = " ".join(_WORDS.findall(detail.casefold().replace("_", " ")))
    if folded in _USELESS:
        return True
    code = call.args[0] if call.args else None
    name = None if code is None else member_name(code, imports) or literal_text(code)
    entry = registry.get(name) if name else None
    return entry is not None and folded in {
        entry.local_name.casefold().replace("_", " "),
        entry.title.casefold(),
    }
