"""Read PowerShell by its tokens: commands with their words, nested as brackets nest.

This is not a full parser. It tells strings, comments and code apart, removes back quotes, and
follows downloaded, decoded or assembled text to the commands that run it.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from demur.guards.code_execution.call import Call, Sight, Written
from demur.guards.code_execution.effects import Effect, Kind
from demur.guards.code_execution.host import DEEPEST, Frame, Host
from demur.guards.code_execution.names import names
from demur.guards.code_execution.outputs import unbase64
from demur.guards.code_execution.programs import bare
from demur.guards.code_execution.value import EMPTY, Arg, Taint, Value
from demur.guards.code_execution.verbs.cmdlets import EVALUATORS, FETCHERS, SHAPES

__all__ = ["read_powershell"]

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
_ENCODED = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")
_VARIABLE = re.compile(r"\$(?:\w+:)?(\w+)$")
_DOWNLOADS = re.compile(
    r"(?i)\.(?:download(?:string|data|file)|openread|getstream|responsetext|load)\b"
)
_DECODES = re.compile(
    r"(?i)frombase64string|deflatestream|gzipstream|convertfrom-securestring|-bxor|\[char\]|::decompress"
)


class _Command(NamedTuple):
    """A command being read: its words, files, and the origins that its brackets add."""

    words: list[Arg]
    writes: list[Written]
    taints: set[Taint]
    glued: list[str]
    start: int
    flow: Value = EMPTY
    piped: bool = False


def _fresh(start: int = 0, flow: Value = EMPTY, *, piped: bool = False) -> _Command:
    return _Command([], [], set(), [], start, flow, piped)


def read_powershell(arg: Arg, host: Host, frame: Frame) -> None:
    """Judge `arg` as PowerShell; a text that is all base64 is decoded first."""
    text = arg.text.strip()
    if _ENCODED.fullmatch(text) and (plain := unbase64(text)):
        host.see(Sight("DECODED_RUN", "powershell"), arg.start, arg.end, "powershell", frame)
        arg = Arg(plain, arg.start, arg.end)
    inner = frame._replace(source=frame.source.inner(arg), depth=frame.depth + 1, pipe_start=-1)
    _Reading(arg.text, host, inner).run()


class _Reading:
    """Reads one text."""

    def __init__(self, text: str, host: Host, frame: Frame) -> None:
        self.text = text
        self.host = host
        self.frame = frame
        self.variables: dict[str, Value] = {}
        self.stack: list[_Command] = []
        self.current = _fresh()
        self.redirect = ""
        self.at = 0

    def run(self) -> None:
        """Judge every command, and report the patterns that span several."""
        self._shapes()
        for token in _TOKEN.finditer(self.text):
            kind = token.lastgroup or "other"
            self.at = token.end()
            if kind in {"open", "close", "end", "pipe"}:
                self._boundary(kind)
            elif kind == "redirect":
                self.redirect = token[0]
            elif kind in {"word", "single", "double", "here"}:
                self._word(kind, token)
            elif kind == "operator":
                self.current.glued.append(token[0].lower())
                if token[0] in "=&":
                    self._operator(token)
        while self.stack:
            self._close()
        self._finish()

    def _shapes(self) -> None:
        code = _TOKEN.sub(
            lambda match: " " * len(match[0]) if match.lastgroup == "comment" else match[0],
            self.text,
        )
        for rule, pattern in SHAPES:
            if match := pattern.search(code):
                self.host.see(Sight(rule), match.start(), match.end(), "powershell", self.frame)

    def _boundary(self, kind: str) -> None:
        if kind == "open":
            self.stack.append(self.current)
            self.current = _fresh(self.at)
        elif kind == "close":
            self._close()
        else:
            flow = self._finish()
            piped = kind == "pipe"
            self.current = _fresh(self.at, flow if piped else EMPTY, piped=piped)
        self.redirect = ""

    def _close(self) -> None:
        """End the inner command, and pass its value to the outer one."""
        inner = self.current.words
        value = self._finish()
        if not self.stack:
            self.current = _fresh(self.at)
            return
        outer = self.stack[-1].words
        if inner and outer and outer[-1].text.lower().endswith(".downloadfile"):
            self.host.wrote(inner[-1].text, _DOWNLOADED)
        self.current = self.stack.pop()
        self.current.taints.update(value.taints)
        if value.text and value.known and not self.current.words:
            self.current.words.append(Arg(value.text, 0, 0, taints=value.taints))
        self.current.glued.append("()")

    def _operator(self, token: re.Match[str]) -> None:
        if (
            token[0] == "&"
            and self.current.words
            and not self.current.words[0].text.startswith("$")
        ):
            self._finish()
            self.current = _fresh(self.at)

    def _word(self, kind: str, token: re.Match[str]) -> None:
        arg = self._arg(kind, token)
        if self.redirect:
            if not arg.text.lower().startswith("$null"):
                self.current.writes.append(Written(arg, ">>" in self.redirect))
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

    def _arg(self, kind: str, token: re.Match[str]) -> Arg:
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

    def _finish(self) -> Value:
        """Judge the command that ends here, and return its value."""
        current = self.current
        words = current.words
        if not words:
            return self._bracketed(current)
        target = ""
        if len(words) > 1 and words[0].text.startswith("$") and "=" in current.glued[:2]:
            target = words[0].text.lstrip("$").rpartition(":")[2].lower()
            words = words[1:]
        value = self._given(words, current)
        if target:
            self.variables[target] = value
            return EMPTY
        return value

    def _bracketed(self, current: _Command) -> Value:
        """Return the value of brackets alone; behind `&` it is run."""
        taints = frozenset(current.taints)
        if "&" in current.glued:
            self._origins("&", taints, current.start, self.at)
        return Value("", known=False, taints=taints) if taints else EMPTY

    def _origins(self, verb: str, taints: frozenset[Taint], start: int, end: int) -> None:
        """Report code that was downloaded or decoded."""
        if Taint.DOWNLOAD in taints:
            self.host.see(Sight("DOWNLOAD_RUN", verb), start, end, verb, self.frame)
        if Taint.DECODED in taints:
            self.host.see(Sight("DECODED_RUN", verb), start, end, verb, self.frame)

    def _given(self, words: list[Arg], current: _Command) -> Value:
        """Judge a command, and return its value."""
        code = " ".join(word.text for word in words)
        taints = set(current.taints) | set(current.flow.taints)
        verb = bare(words[0].text)
        if verb in FETCHERS or _DOWNLOADS.search(code):
            taints.add(Taint.DOWNLOAD)
        if _DECODES.search(code):
            taints.add(Taint.DECODED)
        self._evaluated(verb, words, frozenset(taints), current)
        self._started(verb, words, current)
        literal = all(word.start < word.end and self.text[word.start] in "'\"" for word in words)
        if literal and "+" in current.glued:
            joined = "".join(word.text for word in words)
            return Value(joined, taints=frozenset(taints | {Taint.DECODED}))
        if len(words) == 1 and literal:
            return Value(words[0].text, taints=frozenset(taints))
        return Value("", known=False, taints=frozenset(taints))

    def _evaluated(
        self, verb: str, words: list[Arg], taints: frozenset[Taint], current: _Command
    ) -> None:
        """Judge text that is run as code."""
        start, end = words[0].start, max(word.end for word in words)
        runs = verb in EVALUATORS or any(word.text.lower() in EVALUATORS for word in words[:3])
        called = "&" in current.glued[:2] or words[0].text == "."
        if runs or called:
            self._origins(verb, taints, start, end)
        if runs and verb in EVALUATORS:
            for word in words[1:]:
                if len(word.text) > 3 and not word.text.startswith(("-", "$", ".")):
                    self._again(word)

    def _again(self, word: Arg) -> None:
        """Read a string that is run as code."""
        if self.frame.depth < DEEPEST:
            read_powershell(word, self.host, self.frame)
        else:
            self.host.see(Sight("NESTED_TOO_DEEP"), word.start, word.end, "iex", self.frame)

    def _saved(self, verb: str, words: list[Arg]) -> None:
        """Record the file that a download writes."""
        for word, following in pairwise(words):
            if verb in FETCHERS and _SAVES.match(word.text):
                self.host.wrote(following.text, _DOWNLOADED)

    def _started(self, verb: str, words: list[Arg], current: _Command) -> None:
        """Judge the command as a program."""
        if words[0].text == "." and len(words) > 1:
            words = words[1:]
            verb = bare(words[0].text)
        if words[0].text.startswith(("$", "[")) and "=" not in words[0].text and len(words) == 1:
            return
        end = max(word.end for word in [*words, *(write.target for write in current.writes)])
        start = words[0].start
        call = Call(
            verb=verb,
            name=words[0],
            args=tuple(words[1:]),
            via=self.frame.via,
            stdin=current.flow._replace(taints=current.flow.taints - {Taint.DOWNLOAD}),
            piped=current.piped,
            writes=tuple(current.writes),
            cwd=self.host.cwd,
        )
        self.host.program(call, start, max(start, end), self.frame)
        self._saved(verb, words)
        for effect in _effects(verb, words):
            self.host.effect(effect, start, end, verb, self.frame)


_DOWNLOADED = Value("", known=False, taints=frozenset({Taint.DOWNLOAD}))
_SAVES = re.compile(r"(?i)-(?:outfile|destination)$")


def _effects(verb: str, words: list[Arg]) -> Iterator[Effect]:
    """Yield the effects of a cmdlet on files."""
    kind = _FILES.get(verb)
    if kind is None:
        return
    recurse = any(word.text.lower().startswith("-r") for word in words[1:])
    operands: list[Arg] = []
    skip = ""
    for word in words[1:]:
        text = word.text.lower()
        if text.startswith("-"):
            skip = text if text in _VALUED else ""
        elif skip:
            skip = ""
        elif not text.startswith(("hk", "registry::", "env:")):
            operands.append(word)
    if verb in _COPIES:
        yield from (Effect(Kind.READ, operand) for operand in operands[:1])
        yield from (Effect(Kind.WRITE, operand, adds=True) for operand in operands[1:2])
        return
    for operand in operands[: None if kind is not Kind.WRITE else 1]:
        yield Effect(
            kind, operand, tree=recurse, adds=verb in {"add-content", "ac", "new-item", "ni"}
        )


_VALUED = frozenset(
    names(
        "-value -filter -include -exclude -erroraction -ea -encoding -itemtype -type -stream -name"
        " -inputobject -propertytype"
    )
)
_COPIES = frozenset({"copy-item", "cpi", "move-item", "mi", "copy", "move"})
_FILES = {
    **dict.fromkeys(("remove-item", "ri"), Kind.DELETE),
    **dict.fromkeys(
        (
            "set-content",
            "add-content",
            "out-file",
            "clear-content",
            "ac",
            "tee-object",
            "new-item",
            "ni",
        ),
        Kind.WRITE,
    ),
    **dict.fromkeys(("get-content", "gc", "import-clixml", *_COPIES), Kind.READ),
}
