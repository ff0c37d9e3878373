"""Print which messages of installed packages a legacy phrase would take for refusals.

A phrase is kept for ever, so it must not hit ordinary log lines. The messages of installed
packages are such lines: the texts that they log, warn, print or raise. This prints every
message that holds a phrase, with the phrase and its code, for a person to judge:

    python tools/phrase_hits.py [--new REGISTRY] [FOLDER ...]

Folders default to the packages of this Python. `--new` shows only phrases that the registry
file (such as `spec/registry/1.1.0.json`) does not have.
"""

import argparse
import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from demur.codes.document import read_document
from demur.codes.registry import Registry, fold_phrase

LOG_CALLS = frozenset(
    {"critical", "debug", "error", "exception", "fatal", "info", "log", "print", "warn", "warning"}
)
# A refusal that a package itself writes is no benign line, nor are the messages of demur.
SKIPPED_PACKAGES = frozenset({"demur"})


class PhraseHit(NamedTuple):
    """A message that holds a phrase: its place, the phrase, the code, and the message."""

    place: str
    phrase: str
    code: str
    message: str


def find_messages(source: bytes) -> Iterator[tuple[int, str]]:
    """Yield line and text of each message that a Python source logs, warns, prints or raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _call_messages(node.exc)
        elif isinstance(node, ast.Call) and _is_log_call(node.func):
            yield from _call_messages(node)


def _is_log_call(function: ast.expr) -> bool:
    name = getattr(function, "attr", None) or getattr(function, "id", None)
    return name in LOG_CALLS


def _call_messages(call: ast.Call) -> Iterator[tuple[int, str]]:
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        text = _message_text(value)
        if text.strip(" {}"):
            yield value.lineno, text


def _message_text(node: ast.expr) -> str:
    """Return the text of a literal, with `{}` for each value that is put into it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_message_text(part) for part in parts)
        case ast.FormattedValue():
            return "{}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _message_text(left) + _message_text(right)
        case ast.BinOp(left=left, op=ast.Mod()) | ast.Call(func=ast.Attribute(value=left)):
            return _message_text(left)
        case _:
            return ""


def find_hits(files: Iterable[Path], phrases: dict[str, str]) -> Iterator[PhraseHit]:
    """Yield the messages in the files that hold one of the phrases."""
    for file in files:
        try:
            source = file.read_bytes()
        except OSError:
            continue
        for line, message in find_messages(source):
            for folded in map(fold_phrase, message.splitlines()):
                for phrase, code in phrases.items():
                    if phrase in folded:
                        yield PhraseHit(f"{file}:{line}", phrase, code, folded.strip())


def list_files(folders: Iterable[str]) -> list[Path]:
    """Return the Python sources of the packages in the folders, without demur and tests."""
    return sorted(
        file
        for folder in folders
        for file in Path(folder).rglob("*.py")
        if file.relative_to(folder).parts[0] not in SKIPPED_PACKAGES
        and not {"tests", "test"} & set(file.parts)
    )


def main() -> None:
    """Print the hits and their number for each phrase."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", default=[sysconfig.get_path("purelib")])
    parser.add_argument("--new", metavar="REGISTRY")
    args = parser.parse_args()
    phrases = dict(Registry.load().phrases)
    if args.new:
        known = Registry.from_document(read_document(args.new)).phrases
        phrases = {phrase: code for phrase, code in phrases.items() if phrase not in known}
    hits = list(find_hits(list_files(args.folders), phrases))
    for place, phrase, code, message in sorted(set(hits), key=lambda hit: (hit.code, hit.phrase)):
        print(f"{code}: `{phrase}`: {message[:160]}\n    {place}")
    print(f"{len(hits)} hits of {len(phrases)} phrases", file=sys.stderr)


if __name__ == "__main__":
    main()
