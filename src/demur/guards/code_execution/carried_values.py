"""Values of options, settings, variables and texts that make a program run something.

`tar --to-command=...`, `git -c core.pager=...`, `PAGER=... man` and `sqlite3 f '.shell ...'` carry
a command. `rules/carriers.json` says where each program takes one from, and how it runs it.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, pairwise
from typing import Any, NamedTuple

from demur.guards.code_execution.call import Arg, CommandHit, ProgramCall, Value
from demur.guards.code_execution.context import CommandContext
from demur.guards.code_execution.paths import PathKind, canonical_path, classify_path
from demur.guards.code_execution.rules import read_table
from demur.guards.static.source_text import word_set


class CarriedValue(NamedTuple):
    """What an option or a variable makes a program run, and how (`runs` of its row)."""

    runs: str
    args: tuple[Arg, ...]
    via: str


@cache
def read_carriers() -> dict[str, Any]:
    """Return the table of carriers."""
    return dict(read_table("carriers.json"))


@cache
def carrier_rows(section: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a section by program, or by the name of a variable."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in read_carriers()[section]:
        for name in (row.get("programs") or row["names"]).split():
            rows.setdefault(name, []).append(row)
    return rows


class _Carriers(NamedTuple):
    """The rows of one program."""

    options: tuple[tuple[str, frozenset[str], str], ...] = ()
    settings: tuple[dict[str, Any], ...] = ()
    texts: tuple[dict[str, Any], ...] = ()
    sets_variables: bool = False


@cache
def _carriers() -> dict[str, _Carriers]:
    """Return the rows by program: options each with the words beside which they count."""
    options, settings, texts = map(carrier_rows, ("options", "settings", "texts"))
    prefixes = read_carriers()["prefixes"]
    setting = {name for name, row in prefixes.items() if row.get("assignments")} | _DECLARING
    return {
        name: _Carriers(
            tuple(
                (option, word_set(row.get("within", "")), row.get("runs", "shell"))
                for row in options.get(name, ())
                for option in row["options"].split()
            ),
            tuple(settings.get(name, ())),
            tuple(texts.get(name, ())),
            name in setting,
        )
        for name in {*options, *settings, *texts, *setting}
    }


def find_carried(
    call: ProgramCall, files: Mapping[str, Value] | None = None
) -> Iterator[CarriedValue]:
    """Yield the values of options, settings, variables and texts that `call` would run.

    Texts may also be in written `files` that it names.
    """
    carriers = _carriers().get(call.verb, _NO_CARRIERS)
    if call.args and (carriers.options or carriers.settings):
        yield from _carried_options(call, carriers)
    for row in carriers.texts:
        stdin = call.name._replace(text=call.stdin.text, offset=None)
        for arg in (*call.args, stdin, *(_written_texts(call, files) if files else ())):
            yield from _matched_texts(arg, row["pattern"], call.verb)
    if call.environment or carriers.sets_variables:
        yield from _carried_variables(call, carriers)
    if call.verb == "run-parts" and call.args:
        yield CarriedValue("program", call.args[-1:], call.verb)


def _carried_options(call: ProgramCall, carriers: _Carriers) -> Iterator[CarriedValue]:
    verb, args = call.verb, call.args
    words = {arg.text for arg in args}
    has_options = any(word[:1] == "-" for word in words)
    for option, within, runs in carriers.options:
        if (has_options or option[0] != "-") and not (within and within.isdisjoint(words)):
            for value in find_option_values(args, option, with_rest=runs == "words"):
                yield CarriedValue(runs, value, f"{verb} {option}")
    for row in carriers.settings:
        if has_options or not row["option"].startswith("-") or not _SETTING.isdisjoint(words):
            for setting in _setting_values(args, row):
                via = f"{verb} {row['option']}".strip()
                yield CarriedValue(row.get("runs", "shell"), (setting,), via)


def _written_texts(call: ProgramCall, files: Mapping[str, Value]) -> Iterator[Arg]:
    """Yield the contents of written files that arguments name: `f`, `-ff` and `--file=f`."""
    for arg in call.args:
        for text in (arg.text, arg.text[2:], arg.text.partition("=")[2]):
            if text and (value := files.get(canonical_path(text, call.cwd))):
                yield arg._replace(text=value.text, known=value.known, offset=None)


_NO_CARRIERS = _Carriers()
_SETTING = frozenset({"config", "set"})
_DECLARING = word_set("export declare typeset readonly local env")


def _carried_variables(call: ProgramCall, carriers: _Carriers) -> Iterator[CarriedValue]:
    for name, value in _assigned_variables(call, carriers):
        if "[$(" in value.text or "[`" in value.text:
            # Arithmetic evaluates the subscript in the value of a variable.
            yield CarriedValue("subscript", (value,), name)
        if body := _EXPORTED_FUNCTION.match(value.text):
            plain = value._replace(text=value.text[body.end() :], offset=None)
            yield CarriedValue("shell", (plain,), name)
        for pattern, rows in carrier_rows("variables").items() if name.isupper() else ():
            if name == pattern or ("*" in pattern and fnmatchcase(name, pattern)):
                plain = value._replace(text=value.text.lstrip("!|"), offset=None)
                yield from (CarriedValue(row.get("runs", "shell"), (plain,), name) for row in rows)


_EXPORTED_FUNCTION = re.compile(r"\s*\(\s*\)\s*(?=\{)")


def find_option_values(
    args: tuple[Arg, ...], option: str, *, with_rest: bool = False
) -> Iterator[tuple[Arg, ...]]:
    """Yield each value of an option, `with_rest` with all the words behind it."""
    head, equals, tail = option.partition("=")
    short = len(option) == 2 and option[0] == "-" and option != "--"
    for index, arg in enumerate(args):
        text = arg.text
        if option.endswith(("=", ":")) and text.startswith(option):
            yield (arg._replace(text=text[len(option) :], offset=None),)
        elif equals and text == head:
            for following in args[index + 1 : index + 2]:
                if following.text.startswith(tail):
                    yield (following._replace(text=following.text[len(tail) :], offset=None),)
        elif text == option or (short and _BUNDLE.fullmatch(text) and text[-1] == option[1]):
            yield args[index + 1 :] if with_rest else args[index + 1 : index + 2]
            if with_rest:
                return
        elif not short and option[0] == "-" and text.startswith(f"{option}="):
            yield (arg._replace(text=text.partition("=")[2], offset=None),)
        elif short and text.startswith(option):
            yield (arg._replace(text=text[2:], offset=None),)


_BUNDLE = re.compile(r"-[A-Za-z0-9]{2,}")


def _setting_values(args: tuple[Arg, ...], row: dict[str, Any]) -> Iterator[Arg]:
    """Yield the values of named settings: `-c NAME=VALUE`, `-oNAME VALUE`, `config NAME VALUE`."""
    option, names = row["option"], row["names"].split()
    given = (
        chain.from_iterable(rest[:1] for rest in find_option_values(args, option))
        if option
        else args
    )
    for arg in given:
        parts = re.split(r"\s*=\s*|\s+", arg.text, maxsplit=1)
        if len(parts) == 2 and _names_setting(parts[0], names):
            yield arg._replace(text=parts[1].strip("\"'").lstrip("!"), offset=None)
    if any(arg.text in _SETTING for arg in args):
        for name, value in pairwise(args):
            if _names_setting(name.text, names):
                yield value._replace(text=value.text.lstrip("!"), offset=None)


def _names_setting(name: str, names: list[str]) -> bool:
    plain = name.casefold().rstrip(":")
    return any(fnmatchcase(plain, pattern) for pattern in names)


def _assigned_variables(call: ProgramCall, carriers: _Carriers) -> Iterator[tuple[str, Arg]]:
    """Yield the variables that a call sets for itself or for what comes after it."""
    for name, value in call.environment:
        yield name, Arg(value.text, call.name.start, call.name.end, value.known, value.taints)
    for arg in call.args if carriers.sets_variables else ():
        name, equals, text = arg.text.partition("=")
        if equals and (name.isidentifier() or name.startswith("BASH_FUNC_")):
            yield name, arg._replace(text=text, offset=None)


def _matched_texts(arg: Arg, pattern: str, via: str) -> Iterator[CarriedValue]:
    for match in compile_lines(pattern).finditer(arg.text[:_MAX_TEXT_LENGTH]):
        for group, text in match.groupdict().items():
            if text:
                plain = _strip_quotes(text.strip()).replace("\\/", "/")
                if via in _TCL:
                    plain = plain.replace("{", "'").replace("}", "'")
                kind = group.rstrip("0123456789")
                yield CarriedValue(kind, (arg._replace(text=plain, offset=None),), via)


def _strip_quotes(text: str) -> str:
    """Return a text without the quotes around it, and without one that has no partner."""
    while text and (quote := text[0] if text[0] in _QUOTES else text[-1]) in _QUOTES:
        if text[0] != text[-1] and text.count(quote) % 2 == 0:
            break
        text = text.strip(quote)
    return text


_QUOTES = frozenset("\"'")
_MAX_TEXT_LENGTH = 20_000
_TCL = frozenset({"tclsh", "wish", "expect"})


@cache
def compile_lines(pattern: str) -> re.Pattern[str]:
    """Return a pattern in which `^` and `$` match at each line."""
    return re.compile(pattern, re.MULTILINE)


_FOREIGN_PLACES = frozenset({PathKind.SCRATCH, PathKind.OUTSIDE})


def check_carried(call: ProgramCall, context: CommandContext) -> Iterator[CommandHit]:
    """Yield a hit for a file that a program is made to run or load from a foreign place."""
    for runs, args, via in find_carried(call):
        text = args[0].text if args else ""
        if runs in {"program", "library", "shell"} and "/" in text and " " not in text:
            where = classify_path(text, call.cwd, context.bounds)
            foreign = where is PathKind.SCRATCH if runs == "shell" else where in _FOREIGN_PLACES
            if foreign:
                rule = "LIBRARY_INJECTION" if runs == "library" else "PROXY_EXECUTION"
                yield CommandHit(rule, via)
