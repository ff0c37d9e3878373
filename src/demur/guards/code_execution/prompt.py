"""Reads what the Windows command prompt would run: `&`, `|`, quotes, carets, `for`, `if`, `start`.

A small reader: variables stay as they are (`%TEMP%` is a place of its own), and labels and
`goto` are not followed.
"""

import re
from collections.abc import Iterator
from itertools import islice

from demur.guards.code_execution.call import ProgramCall, WrittenFile
from demur.guards.code_execution.host import CodeLocation, Walker
from demur.guards.code_execution.programs import program_name
from demur.guards.code_execution.value import EMPTY, CommandArg, TextValue

__all__ = ["read_prompt"]

_TOKEN = re.compile(
    r"(?P<space>[ \t\r,=]+)|(?P<end>\n|&&?|\|\|?|[()])|(?P<redirect>\d?>>?|\d?<)"
    r"|(?P<word>(?:\"[^\"\n]*(?:\"|$|(?=\n))|\^[\s\S]|[^\s\"^&|()<>,=]|(?<=\S)=)+)"
    r"|(?P<other>[\s\S])"
)
_CARET = re.compile(r"\^([\s\S])")
_LEADING = frozenset({"call", "start", "@", "do", "else"})
_MAX_COMMANDS = 500


def read_prompt(arg: CommandArg, walker: Walker, location: CodeLocation) -> None:
    """Judge `arg` as text for the command prompt."""
    inner = location._replace(
        source=location.source.map_arg(arg), depth=location.depth + 1, pipe_start=-1
    )
    flow: TextValue = EMPTY
    for raw, writes, piped in islice(_split_commands(arg.text), _MAX_COMMANDS):
        words = _strip_prefixes(raw)
        if words:
            flow = _judge_command(
                words, writes, flow if piped else EMPTY, walker, inner, piped=piped
            )


def _judge_command(
    words: list[CommandArg],
    writes: list[WrittenFile],
    flow: TextValue,
    walker: Walker,
    location: CodeLocation,
    *,
    piped: bool,
) -> TextValue:
    call = ProgramCall(
        verb=program_name(words[0].text),
        name=words[0],
        args=tuple(words[1:]),
        via=location.via,
        stdin=flow,
        piped=piped,
        writes=tuple(writes),
        cwd=walker.cwd,
    )
    last = max(word.end for word in [*words, *(write.target for write in writes)])
    return walker.judge_program(call, words[0].start, last, location)


def _split_commands(text: str) -> Iterator[tuple[list[CommandArg], list[WrittenFile], bool]]:
    """Yield each command: its words, its output files, and whether it reads another's output."""
    words: list[CommandArg] = []
    writes: list[WrittenFile] = []
    redirect = ""
    piped = False
    groups = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if token[0] == "(":
            kind = "word" if _takes_brackets(words) else kind
            groups += kind == "end"
        elif token[0] == ")":
            kind = "end" if groups else "word"
            groups -= kind == "end"
        if kind == "word":
            word = _token_word(token)
            if redirect:
                if ">" in redirect and not word.text.startswith("&") and word.text.lower() != "nul":
                    writes.append(WrittenFile(word, ">>" in redirect))
                redirect = ""
            else:
                words.append(word)
        elif kind == "redirect":
            redirect = token[0]
        elif kind == "end" and not redirect:
            yield words, writes, piped
            words, writes, piped = [], [], token[0] == "|"
        elif kind == "end":
            redirect = ""
    yield words, writes, piped


def _takes_brackets(words: list[CommandArg]) -> bool:
    """Whether a bracket belongs to a command's arguments, not to the prompt's grammar."""
    return bool(words) and words[0].text.lower().lstrip("@") not in {"if", "for", "else"}


def _token_word(token: re.Match[str]) -> CommandArg:
    raw = token[0]
    text = _CARET.sub(r"\1", raw).replace('"', "")
    quoted = raw.startswith('"') and raw.endswith('"') and raw[1:-1] == text
    offset = token.start() + 1 if quoted else (token.start() if raw == text else None)
    return CommandArg(text, token.start(), token.end(), offset=offset)


def _strip_prefixes(words: list[CommandArg]) -> list[CommandArg]:
    """Return the command after `@`, `start`, `call`, `if ...` and `for ... do`."""
    for _ in range(4):
        if not words:
            return words
        first = words[0].text.lower().lstrip("@")
        if first != words[0].text.lower():
            words = [words[0]._replace(text=first, offset=None), *words[1:]] if first else words[1:]
        elif first in _LEADING:
            words = words[1:]
            while words and (words[0].text.startswith("/") or not words[0].text):
                words = words[1:]
        elif first == "if":
            words = _behind_if(words)
        elif first == "for":
            at = next(
                (n for n, word in enumerate(words) if word.text.lower() == "do"), len(words) - 1
            )
            words = words[at + 1 :]
        else:
            return words
    return words


def _behind_if(words: list[CommandArg]) -> list[CommandArg]:
    """Return the command of `if [not] exist FILE`, `if [/i] a==b`, `if errorlevel N`."""
    rest = [word for word in words[1:] if word.text.lower() not in {"not", "/i"}]
    if rest and rest[0].text.lower() in {"exist", "defined", "errorlevel"}:
        return rest[2:]
    return rest[1:]
