"""The literals of code in a language without a parser, and calls that run no literal.

Quoted texts, Perl's `q()`, `qw()` and heredocs, lists of literals (one command with its arguments)
and literals that are joined (`"r" . "m"`) are found by their signs alone.
"""

import re
from collections.abc import Iterator
from itertools import islice

from demur.guards.code_execution.call import Arg

_LITERAL = re.compile(
    r"<<~?[`\"']?(?P<end>[A-Za-z_]\w*)[`\"']?[^\n]*\n(?P<heredoc>[\s\S]{0,5000}?)\n[ \t]*(?P=end)\b"
    r"|\bq(?P<kind>[qwx]?)\s*(?:\((?P<round>[^()]{0,2000}(?:\([^()]*\)[^()]*)*)\)"
    r"|\{(?P<curly>[^{}]{0,2000}(?:\{[^{}]*\}[^{}]*)*)\}|\[(?P<square>[^\[\]]{0,2000})\]"
    r"|(?P<sign>[^\w\s,;=()<>{}\[\]])(?P<other>[^\n]{0,2000}?)(?P=sign))"
    r"|(?P<quote>[\"'`])(?P<plain>(?:\\.|(?!(?P=quote))[^\\]){0,2000})(?P=quote)"
    r"|<(?P<glob>[/~][^<>\n]{0,300})>",
)
_PARTS = ("heredoc", "round", "curly", "square", "other", "plain", "glob")
_LISTED = re.compile(r"[\s(\[{]*(?:,|=>)[\s(\[]*")
_JOINED = re.compile(r"\s*(?:\.\.?|\+|<>)\s*")
_ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\/": "/", "\\$": "$", "\\@": "@"}
_ESCAPE = re.compile(r"\\(?:[nt\"'/$@]|x[0-9A-Fa-f]{2}|[0-7]{3})")
_BARE = re.compile(r"\b(?:exec|spawn)\s+(?:--?\w*\s+)?(?P<bare>[\w./][^\n\]\"'`;()]{2,500})")
_MAX_LITERALS = 200


def find_literals(text: str) -> Iterator[Arg]:
    """Yield each literal, each list of literals as one command, and each joined literal."""
    run: list[Arg] = []
    joined = ""
    for match in islice(_LITERAL.finditer(text), _MAX_LITERALS):
        name = next(part for part in _PARTS if match[part] is not None)
        literal = Arg(_unescape(match[name]), match.start(), match.end())
        yield literal
        between = text[run[-1].end : literal.start] if run else ""
        if run and _JOINED.fullmatch(between):
            joined += literal.text
            yield literal._replace(text=joined, start=run[0].start)
        elif run and _LISTED.fullmatch(between):
            joined = literal.text
        else:
            yield from _list_command(run)
            run, joined = [], literal.text
        run.append(literal)
    yield from _list_command(run)
    for match in islice(_BARE.finditer(text), _MAX_LITERALS):
        # Tcl quotes with braces.
        bare = match["bare"].replace("{", "'").replace("}", "'")
        yield Arg(bare, match.start("bare"), match.end("bare"))


def _list_command(literals: list[Arg]) -> Iterator[Arg]:
    if len(literals) > 1:
        whole = " ".join(literal.text for literal in literals)
        yield literals[0]._replace(text=whole, end=literals[-1].end)
        # The name of the program for itself may stand before its path.
        rest = " ".join(literal.text for literal in literals[1:])
        yield literals[1]._replace(text=rest, end=literals[-1].end)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[0]) or _by_number(match[0]), text)


def _by_number(escape: str) -> str:
    digits = escape.removeprefix("\\x")
    return chr(int(digits, 16) if digits != escape else int(escape[1:], 8))


# What a call is given that runs no literal: a variable, its input, or the result of a call.
_GIVEN = (
    r"(?P<{}>[$@<]|(?:shift|pop|scalar|reverse|join|lc|uc|pack|unpack|sprintf|substr|map|chr)\b|[A-Za-z_][\w:.]*\s*[(\"'$@]|"
    r"[A-Za-z_]\w*\s*(?:[),;}}+]|$)|`)"
)
_CALL = r"\b\s*(?:\{{[^{{}}]*\}}\s*)?\(?\s*"
_RUN = re.compile(
    r"(?:(?<![\w$@%>:.\\/-])(?:CORE::(?:GLOBAL::)?|POSIX::)?(?:system|exec)|\b(?:execSync|spawnSync"
    r"|shell_exec|passthru|os\.execute|io\.popen|IO\.popen|open[23]|popen))"
    + (_CALL + _GIVEN).format("given")
    + r"|(?<![\w$@%>:.\\/-])(?:eval|new Function|instance_eval|load(?:string)?(?=\s*\())"
    + (_CALL + _GIVEN).format("code")
    + r"|\b(?:system|exec|eval)\b\s*\(?\s*(?:\"[^\"\n]*\"|'[^'\n]*')\s*\.\s*(?:join|pack|chr"
    r"|reverse|sprintf|lc|uc|substr|decode\w*)\b|\beval\s*\(?\s*\"\s*\$\w+\s*\("
    r"|/\s*(?:system|exec|eval)\s*\(?\s*[$@<]"
    r"|`\s*[$@]\w[^`]*`"
    r"|\bopen\b[^;\n]{0,200}?(?:\"\s*\$\w+\s*\|\"|\"\|\s*\$\w+\"|\"(?:-\||\|-)\"\s*,\s*[$@])"
    r"|\bprint\b[^|;\n{}]{0,200}\|\s*[a-zA-Z_]\w*\s*[;}\n]"
)
_LITERAL_START = re.compile(r"q[qwx]?\s*[^\w\s,;=]|(?:do|not|and|or|if|for|is|are|in)\b")
_VARIABLE = re.compile(r"[$@]?([A-Za-z_]\w*)\s*(?:[);,}\]]|$|\s(?:if|or|for|while|unless)\b)")
_CHANGES = re.compile(r"=~|\b(?:tr|y|s)[/{|#~!]|\b(?:reverse|substr|chop)\b")


def find_unclear_run(text: str) -> re.Match[str] | None:
    """Return the first call that runs a text or a command which is not a literal."""
    for match in islice(_RUN.finditer(text), _MAX_LITERALS):
        name = match.lastgroup
        if name is None:
            return match
        rest = text[match.start(name) :]
        if _LITERAL_START.match(rest):
            continue
        variable = _VARIABLE.match(rest)
        if variable is None or _CHANGES.search(text) or not _holds_literal(variable[1], text):
            return match
    return None


def _holds_literal(name: str, text: str) -> bool:
    """Whether a variable is only ever assigned literals."""
    assigned = re.findall(rf"[$@]?\b{re.escape(name)}\b\s*(\.=|\+=|=(?![=~>]))\s*(.?.?)", text)
    literal = re.compile(r"\(?\s*[\"']|q[qw]?|\(\s*[\"'q]?")
    return bool(assigned) and all(sign == "=" and literal.match(rest) for sign, rest in assigned)
