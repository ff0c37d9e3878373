"""Read PowerShell by its tokens: commands with their words, nested as brackets nest.

This is not a full parser. It tells strings, comments and code apart, removes back quotes, and
follows downloaded, decoded or assembled text to the commands that run it.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from demur.guards.code_execution.call import (
    EMPTY,
    Arg,
    CommandHit,
    ProgramCall,
    Taint,
    Value,
    WrittenFile,
    program_name,
)
from demur.guards.code_execution.command_rules import powershell_patterns
from demur.guards.code_execution.context import MAX_DEPTH, ORIGIN_RULES, Location, Walker
from demur.guards.code_execution.effects import EffectKind, FileEffect
from demur.guards.code_execution.outputs import decode_base64
from demur.guards.static.source_text import split_names, word_set

_TOKEN = re.compile(
    r"(?P<comment><\#[\s\S]*?(?:\#>|$)|(?<![^\s;{}()|&,])\#[^\n]*)"
    r"|(?P<here>@\"\r?\n[\s\S]*?(?:\n[ \t]*\"@|$)|@'\r?\n[\s\S]*?(?:\n[ \t]*'@|$))"
    r"|(?P<single>'(?:''|[^'])*(?:'|$))"
    r"|(?P<double>\"(?:`[\s\S]|\"\"|[^\"`])*(?:\"|$))"
    r"|(?P<space>[ \t\r]+|`\r?\n)"
    r"|(?P<open>@?[({]|\$\()|(?P<close>[)}])"
    r"|(?P<end>\n|;|&&|\|\|)|(?P<pipe>\|)|(?P<redirect>[\d*]?>>?(?:&\d)?)"
    r"|(?P<operator>[,+=]|&|-(?:f|join|split|replace|bxor|as)\b)"
    r"|(?P<word>(?:`[\s\S]|[^\s'\"`;|{}()&,+=>])+)"
    r"|(?P<other>[\s\S])",
    re.IGNORECASE,
)
_EVALUATORS = word_set("iex invoke-expression [scriptblock]::create invoke-command-text icex")
_FETCHERS = word_set("iwr invoke-webrequest irm invoke-restmethod wget curl start-bitstransfer")
_ENCODED = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_VARIABLE = re.compile(r"\$(?:\w+:)?(\w+)$")
_DOWNLOADS = re.compile(
    r"(?i)\.(?:download(?:string|data|file)|openread|getstream|responsetext|load)\b"
)
_DECODES = re.compile(
    r"(?i)frombase64string|deflatestream|gzipstream|convertfrom-securestring|-bxor|\[char\]|::decompress"
)


class _PowerShellCommand(NamedTuple):
    """A command being read: its words, files, and the origins that its brackets add."""

    words: list[Arg]
    writes: list[WrittenFile]
    taints: set[Taint]
    glued: list[str]
    start: int
    flow: Value = EMPTY
    piped: bool = False


def _blank_comment(token: re.Match[str]) -> str:
    return " " * len(token[0]) if token.lastgroup == "comment" else token[0]


def _new_command(start: int = 0, flow: Value = EMPTY, *, piped: bool = False) -> _PowerShellCommand:
    return _PowerShellCommand([], [], set(), [], start, flow, piped)


def read_powershell(arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as PowerShell; a text that is all base64 is decoded first."""
    text = arg.text.strip()
    if _ENCODED.fullmatch(text) and (plain := decode_base64(text)):
        hit = CommandHit("DECODED_RUN", "powershell")
        walker.report(hit, arg.start, arg.end, "powershell", location)
        arg = Arg(plain, arg.start, arg.end)
    _PowerShellReader(arg.text, walker, location.enter(arg)).run()


class _PowerShellReader:
    """Reads one text."""

    def __init__(self, text: str, walker: Walker, location: Location) -> None:
        self.text = text
        self.walker = walker
        self.location = location
        self.variables: dict[str, Value] = {}
        self.stack: list[_PowerShellCommand] = []
        self.current = _new_command()
        self.redirect = ""
        self.position = 0

    def run(self) -> None:
        """Judge every command, and report the patterns that span several."""
        self._report_shapes()
        for token in _TOKEN.finditer(self.text):
            kind = token.lastgroup or "other"
            self.position = token.end()
            if kind in {"open", "close", "end", "pipe"}:
                self._handle_boundary(kind)
            elif kind == "redirect":
                self.redirect = token[0]
            elif kind in {"word", "single", "double", "here"}:
                self._add_word(kind, token)
            elif kind == "operator":
                self.current.glued.append(token[0].lower())
                words = self.current.words
                if token[0] == "&" and words and not words[0].text.startswith("$"):
                    self._finish_command()
                    self.current = _new_command(self.position)
        while self.stack:
            self._close_bracket()
        self._finish_command()

    def _report_shapes(self) -> None:
        code = _TOKEN.sub(_blank_comment, self.text)
        for rule, pattern in powershell_patterns():
            if match := pattern.search(code):
                self._report(CommandHit(rule), *match.span(), "powershell")

    def _report(self, hit: CommandHit, start: int, end: int, verb: str) -> None:
        self.walker.report(hit, start, end, verb, self.location)

    def _handle_boundary(self, kind: str) -> None:
        if kind == "open":
            self.stack.append(self.current)
            self.current = _new_command(self.position)
        elif kind == "close":
            self._close_bracket()
        else:
            flow = self._finish_command()
            piped = kind == "pipe"
            self.current = _new_command(self.position, flow if piped else EMPTY, piped=piped)
        self.redirect = ""

    def _close_bracket(self) -> None:
        """End the inner command, and pass its value to the outer one."""
        inner = self.current.words
        value = self._finish_command()
        if not self.stack:
            self.current = _new_command(self.position)
            return
        outer = self.stack[-1].words
        if inner and outer and outer[-1].text.lower().endswith(".downloadfile"):
            self.walker.record_write(inner[-1].text, _DOWNLOADED)
        self.current = self.stack.pop()
        self.current.taints.update(value.taints)
        if value.text and value.known and not self.current.words:
            self.current.words.append(Arg(value.text, 0, 0, taints=value.taints))
        self.current.glued.append("()")

    def _add_word(self, kind: str, token: re.Match[str]) -> None:
        arg = self._token_arg(kind, token)
        if self.redirect:
            if not arg.text.lower().startswith("$null"):
                self.current.writes.append(WrittenFile(arg, ">>" in self.redirect))
            self.redirect = ""
            return
        if kind != "word":
            self.current.glued.append("''")
        name = _VARIABLE.match(arg.text)
        if name and name[1].lower() in self.variables:
            known = self.variables[name[1].lower()]
            self.current.taints.update(known.taints)
            if known.known and known.text and self.current.words:
                arg = arg._replace(text=known.text, taints=known.taints, offset=None)
        self.current.words.append(arg)

    def _token_arg(self, kind: str, token: re.Match[str]) -> Arg:
        raw = token[0]
        if kind == "word":
            text, offset = raw.replace("`", ""), token.start()
        elif kind == "here":
            text, offset = raw[2:-2].strip("\r\n"), None
        else:
            quote = raw[0]
            text = raw[1:-1] if len(raw) > 1 and raw.endswith(quote) else raw[1:]
            offset = token.start() + 1
            plain = text.replace(quote * 2, quote)
            plain = re.sub(r"`([\s\S])", r"\1", plain) if quote == '"' else plain
            offset, text = (offset if plain == text else None), plain
        return Arg(text, token.start(), token.end(), offset=offset if text in raw else None)

    def _finish_command(self) -> Value:
        """Judge the command that ends here, and return its value."""
        current = self.current
        words = current.words
        if not words:
            # Brackets alone; behind `&` their value is run.
            taints = frozenset(current.taints)
            if "&" in current.glued:
                self._report_origins("&", taints, current.start, self.position)
            return Value("", known=False, taints=taints) if taints else EMPTY
        target = ""
        if len(words) > 1 and words[0].text.startswith("$") and "=" in current.glued[:2]:
            target = words[0].text.lstrip("$").rpartition(":")[2].lower()
            words = words[1:]
        value = self._command_value(words, current)
        if target:
            self.variables[target] = value
            return EMPTY
        return value

    def _report_origins(self, verb: str, taints: frozenset[Taint], start: int, end: int) -> None:
        """Report code that was downloaded or decoded."""
        for taint, rule in ORIGIN_RULES.items():
            if taint in taints:
                self._report(CommandHit(rule, verb), start, end, verb)

    def _command_value(self, words: list[Arg], current: _PowerShellCommand) -> Value:
        """Judge a command, and return its value."""
        code = " ".join(word.text for word in words)
        taints = set(current.taints) | set(current.flow.taints)
        verb = program_name(words[0].text)
        if verb in _FETCHERS or _DOWNLOADS.search(code):
            taints.add(Taint.DOWNLOAD)
        if _DECODES.search(code):
            taints.add(Taint.DECODED)
        self._judge_evaluated(verb, words, frozenset(taints), current)
        self._judge_started(verb, words, current)
        literal = all(word.start < word.end and self.text[word.start] in "'\"" for word in words)
        if literal and "+" in current.glued:
            joined = "".join(word.text for word in words)
            return Value(joined, taints=frozenset(taints | {Taint.DECODED}))
        if len(words) == 1 and literal:
            return Value(words[0].text, taints=frozenset(taints))
        return Value("", known=False, taints=frozenset(taints))

    def _judge_evaluated(
        self, verb: str, words: list[Arg], taints: frozenset[Taint], current: _PowerShellCommand
    ) -> None:
        """Judge text that is run as code."""
        start, end = words[0].start, max(word.end for word in words)
        runs = verb in _EVALUATORS or any(word.text.lower() in _EVALUATORS for word in words[:3])
        called = "&" in current.glued[:2] or words[0].text == "."
        if runs or called:
            self._report_origins(verb, taints, start, end)
        for word in words[1:] if verb in _EVALUATORS else ():
            if len(word.text) <= 3 or word.text.startswith(("-", "$", ".")):
                continue
            if self.location.depth < MAX_DEPTH:
                read_powershell(word, self.walker, self.location)
            else:
                self._report(CommandHit("NESTED_TOO_DEEP"), word.start, word.end, "iex")

    def _judge_started(self, verb: str, words: list[Arg], current: _PowerShellCommand) -> None:
        """Judge the command as a program."""
        if words[0].text == "." and len(words) > 1:
            words = words[1:]
            verb = program_name(words[0].text)
        if words[0].text.startswith(("$", "[")) and "=" not in words[0].text and len(words) == 1:
            return
        end = max(word.end for word in [*words, *(write.target for write in current.writes)])
        start = words[0].start
        name, args, writes = words[0], tuple(words[1:]), tuple(current.writes)
        stdin = current.flow._replace(taints=current.flow.taints - {Taint.DOWNLOAD})
        via, cwd = self.location.via, self.walker.cwd
        call = ProgramCall(verb, name, args, via, stdin, current.piped, writes, cwd=cwd)
        self.walker.judge_program(call, start, max(start, end), self.location)
        for word, following in pairwise(words) if verb in _FETCHERS else ():
            if _SAVES.match(word.text):
                self.walker.record_write(following.text, _DOWNLOADED)
        for effect in _cmdlet_effects(verb, words):
            self.walker.report_effect(effect, start, end, verb, self.location)


_DOWNLOADED = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
_SAVES = re.compile(r"(?i)-(?:outfile|destination)$")


def _cmdlet_effects(verb: str, words: list[Arg]) -> Iterator[FileEffect]:
    """Yield the effects of a cmdlet on files."""
    kind = _FILES.get(verb)
    if kind is None:
        return
    recurse = any(word.text.lower().startswith("-r") for word in words[1:])
    operands: list[Arg] = []
    skip = False
    for word in words[1:]:
        text = word.text.lower()
        if text.startswith("-"):
            skip = text in _VALUED
        elif skip:
            skip = False
        elif not text.startswith(("hk", "registry::", "env:")):
            operands.append(word)
    if verb in _COPIES:
        yield from (FileEffect(EffectKind.READ, operand) for operand in operands[:1])
        yield from (FileEffect(EffectKind.WRITE, operand, append=True) for operand in operands[1:2])
        return
    append = verb in {"add-content", "ac", "new-item", "ni"}
    for operand in operands[: None if kind is not EffectKind.WRITE else 1]:
        yield FileEffect(kind, operand, tree=recurse, append=append)


_VALUED = word_set(
    "-value -filter -include -exclude -erroraction -ea -encoding -itemtype -type -stream -name"
    " -inputobject -propertytype"
)
_COPIES = frozenset({"copy-item", "cpi", "move-item", "mi", "copy", "move"})
_FILES = {
    **dict.fromkeys(("remove-item", "ri"), EffectKind.DELETE),
    **dict.fromkeys(
        split_names("set-content add-content out-file clear-content ac tee-object new-item ni"),
        EffectKind.WRITE,
    ),
    **dict.fromkeys(("get-content", "gc", "import-clixml", *_COPIES), EffectKind.READ),
}
