"""Readers for text that is not parsed: the Windows command prompt, and Perl, Ruby, PHP and others.

The prompt is read by tokens: `&`, `|`, quotes, carets, `for`, `if`, `start`. Variables stay as they
are, and labels and `goto` are not followed. In the other languages comments and strings are not
told from code. Reported are a shell command in a string that goes to the system, a socket beside a
shell, a download or decoded text beside an evaluation, and a deleted file. If code starts programs
or deletes files, its other literals are judged as if they were meant; if it runs what only run time
knows, that is escalated.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice

from demur.guards.code_execution.call import (
    EMPTY,
    Arg,
    CommandHit,
    ProgramCall,
    Value,
    WrittenFile,
    program_name,
)
from demur.guards.code_execution.context import MAX_DEPTH, Location, Walker
from demur.guards.code_execution.effects import EffectKind, FileEffect
from demur.guards.code_execution.literals import find_literals, find_unclear_run
from demur.guards.code_execution.rules import compile_pattern, read_table

_TOKEN = re.compile(
    r"(?P<space>[ \t\r,=]+)|(?P<end>\n|&&?|\|\|?|[()])|(?P<redirect>\d?>>?|\d?<)"
    r"|(?P<word>(?:\"[^\"\n]*(?:\"|$|(?=\n))|\^[\s\S]|[^\s\"^&|()<>,=]|(?<=\S)=)+)"
    r"|(?P<other>[\s\S])"
)
_CARET = re.compile(r"\^([\s\S])")
_LEADING = frozenset({"call", "start", "@", "do", "else"})
_MAX_COMMANDS = 500


def read_prompt(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as text for the command prompt."""
    inner = location.enter(arg)
    flow: Value = EMPTY
    for raw, writes, piped in islice(_split_commands(arg.text), _MAX_COMMANDS):
        words = _strip_prefixes(raw)
        if not words:
            continue
        stdin = flow if piped else EMPTY
        verb, name, args = program_name(words[0].text), words[0], tuple(words[1:])
        files = tuple(writes)
        call = ProgramCall(verb, name, args, inner.via, stdin, piped, files, cwd=walker.cwd)
        last = max(word.end for word in [*words, *(write.target for write in writes)])
        flow = walker.judge_program(call, name.start, last, inner)


def _split_commands(text: str) -> Iterator[tuple[list[Arg], list[WrittenFile], bool]]:
    """Yield each command: its words, its output files, and whether it reads another's output."""
    words: list[Arg] = []
    writes: list[WrittenFile] = []
    redirect = ""
    piped = False
    groups = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if token[0] == "(":
            # Behind a command, a bracket belongs to its arguments, not to the grammar.
            first = words[0].text.lower().lstrip("@") if words else "if"
            kind = kind if first in {"if", "for", "else"} else "word"
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


def _token_word(token: re.Match[str]) -> Arg:
    raw = token[0]
    text = _CARET.sub(r"\1", raw).replace('"', "")
    quoted = raw.startswith('"') and raw.endswith('"') and raw[1:-1] == text
    offset = token.start() + 1 if quoted else (token.start() if raw == text else None)
    return Arg(text, token.start(), token.end(), offset=offset)


def _strip_prefixes(words: list[Arg]) -> list[Arg]:
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
            # `if [not] exist FILE`, `if [/i] a==b`, `if errorlevel N`
            rest = [word for word in words[1:] if word.text.lower() not in {"not", "/i"}]
            tests = rest and rest[0].text.lower() in {"exist", "defined", "errorlevel"}
            words = rest[2:] if tests else rest[1:]
        elif first == "for":
            texts = [word.text.lower() for word in words]
            words = words[texts.index("do") + 1 :] if "do" in texts else []
        else:
            return words
    return words


_STARTS = re.compile(
    r"(?:\bsystem|\bexec|\bpopen|\bshell_exec|\bpassthru|\bproc_open|\bexecSync|\bexecFile(?:Sync)?"
    r"|\bspawn(?:Sync)?|\bos\.execute|\bio\.popen|\bIO\.popen|\bsubprocess\.\w+|\bpty\.spawn"
    r"|do shell script|\bqx|%x|\bterm|\bshell-command|\bRun)"
    r"\s*[(\[{ ]?\s*[\[]?\s*(['\"])((?:\\.|(?!\1).){1,2000})\1",
    re.DOTALL,
)
_BACKTICKS = re.compile(r"`([^`$][^`]{0,2000})`")
_PIPED = re.compile(r"['\"]([^'\"|]{2,500})['\"]\s*\|\s*getline|\|\s*['\"]([^'\"]{2,500})['\"]")
_DELETE = re.compile(
    r"(?i)\b(?:unlink|rmtree|remove_tree|rm_rf|rm_r|rimraf(?:\.sync)?|rmSync|rmdirSync|unlinkSync|rmdir|os\.remove"
    r"|(?:fs|fsp|promises|fsPromises)\.rm|Deno\.remove(?:Sync)?)"
    r"\s*\(?\s*(['\"])([^'\"]{1,300})\1"
)
_MAX_MATCHES = 20
_MAX_CODE_LENGTH = 20_000


def read_other(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as code in a language without a parser."""
    read_calls(arg, walker, location)
    if match := find_unclear_run(arg.text[:_MAX_CODE_LENGTH]):
        hit = CommandHit("CODE_UNKNOWN", "code")
        walker.report(hit, match.start(), match.end(), "code", location.enter(arg))


def read_calls(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge the calls and literals of `arg`, whatever its language."""
    text = arg.text[:_MAX_CODE_LENGTH]
    inner = location.enter(arg)
    for rule in _match_shapes(text):
        walker.report(CommandHit(rule, "code"), 0, len(arg.text), "code", inner)
    for command in _shell_strings(text):
        walker.walk_shell(command, inner)
    for match in islice(_DELETE.finditer(text), _MAX_MATCHES):
        target = Arg(match[2], match.start(2), match.end(2))
        tree = not match[0].lower().startswith("unlink")
        effect = FileEffect(EffectKind.DELETE, target, tree=tree)
        walker.report_effect(effect, match.start(), match.end(), "code", inner)
    _judge_literals(text, walker, inner._replace(guessed=True))


def _judge_literals(text: str, walker: Walker, location: Location) -> None:
    """Judge the literals of code that starts programs, runs text or deletes files."""
    runs = _pattern("runs").search(text)
    evaluates = _pattern("eval").search(text) or _pattern("loads").search(text)
    deletes = _pattern("deletes").search(text)
    for literal in find_literals(text) if runs or evaluates or deletes or "|" in text else ():
        command = literal.text.strip().strip("|").strip()
        piped = command != literal.text.strip()
        if (runs or piped) and len(command.split(maxsplit=1)) > 1:
            walker.walk_shell(literal._replace(text=command, offset=None), location)
        nested = evaluates and literal.text != text and location.depth < MAX_DEPTH
        if nested and (_pattern("runs").search(command) or _pattern("deletes").search(command)):
            read_other(literal, walker, location)
        # A lone slash separates, and a path behind a sign of joining is only the end of one.
        is_path = re.match(r"[/~][^ ]", command) and text[: literal.start].rstrip()[-1:] not in ".+"
        if deletes and is_path and " " not in command:
            effect = FileEffect(EffectKind.DELETE, literal._replace(text=command), tree=True)
            walker.report_effect(effect, literal.start, literal.end, "code", location)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return compile_pattern(read_table("other_languages.yaml")[name])


def _match_shapes(text: str) -> Iterator[str]:
    """Yield the rules that match the code as a whole."""
    if _pattern("socket").search(text) and _pattern("shell").search(text):
        yield "REVERSE_SHELL"
    if not _pattern("eval").search(text):
        return
    if _pattern("fetch").search(text):
        yield "DOWNLOAD_RUN"
    elif _pattern("decode").search(text):
        yield "DECODED_RUN"


def _shell_strings(text: str) -> Iterator[Arg]:
    """Yield the strings that the code passes to a shell."""
    for pattern in (_STARTS, _BACKTICKS, _PIPED):
        for match in islice(pattern.finditer(text), _MAX_MATCHES):
            group = match.lastindex or 0
            raw = match[group]
            plain = raw.replace('\\"', '"').replace("\\'", "'")
            offset = match.start(group) if plain == raw else None
            yield Arg(plain, match.start(group), match.end(group), offset=offset)
