"""Code in languages that are not parsed (Perl, Ruby, PHP, JavaScript, Lua, awk, AppleScript).

Comments and strings are not told from code here, so only what is plain is reported: a shell
command in a string that is handed to the system, a socket beside a shell, a download or a
decoded text beside an evaluation, a file that is deleted.
"""

import re
from collections.abc import Iterator
from itertools import islice

from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.effects import FileEffect, EffectKind
from demur.guards.code_execution.host import CodeLocation, Walker
from demur.guards.code_execution.value import CommandArg

__all__ = ["read_other"]

_STARTS = re.compile(
    r"(?:\bsystem|\bexec|\bpopen|\bshell_exec|\bpassthru|\bproc_open|\bexecSync|\bexecFile(?:Sync)?"
    r"|\bspawn(?:Sync)?|\bos\.execute|\bio\.popen|\bIO\.popen|\bsubprocess\.\w+|\bpty\.spawn"
    r"|do shell script|\bqx|%x|\bterm|\bshell-command|\bRun)"
    r"\s*[(\[{ ]?\s*[\[]?\s*(['\"])((?:\\.|(?!\1).){1,2000})\1",
    re.DOTALL,
)
_BACKTICKS = re.compile(r"`([^`]{1,2000})`")
_PIPED = re.compile(r"['\"]([^'\"|]{2,500})['\"]\s*\|\s*getline|\|\s*['\"]([^'\"]{2,500})['\"]")
_SOCKET = re.compile(
    r"(?i)\b(?:IO::Socket|use Socket|socket\(|fsockopen|TCPSocket"
    r"|net\.(?:connect|Socket|createConnection)"
    r"|require\(['\"]net['\"]\)|/inet/(?:tcp|udp)/|socket\.socket|luasocket|require\(['\"]socket['\"]\)|Net\.Sockets)"
)
_SHELL = re.compile(
    r"(?i)/bin/(?:ba|z|da)?sh\b|\bcmd\.exe|\bexec\s*\(|proc_open|spawn\(|\bpty\.spawn|\bsystem\(|io\.popen"
)
_FETCH = re.compile(
    r"(?i)LWP::|open-uri|file_get_contents\(\s*['\"]https?:|fetch\(|https?\.get\(|Net::HTTP|curl_exec|urlopen|requests\.get"
    r"|URI\.open|axios\.get"
)
_EVAL = re.compile(
    r"(?i)\beval\b|\binstance_eval|\bnew Function|\bload(?:string)?\s*\("
    r"|\bassert\(|\bexec\s*[(]|\bvm\.run"
)
_DECODE = re.compile(
    r"(?i)base64_decode|decode_base64|decode64|\batob\(|['\"]base64['\"]|gzinflate|str_rot13|b64decode|pack\(['\"]H|fromhex"
)
_DELETE = re.compile(
    r"(?i)\b(?:unlink|rmtree|remove_tree|rm_rf|rm_r|rimraf(?:\.sync)?|rmSync|rmdirSync|unlinkSync|rmdir|os\.remove)"
    r"\s*\(?\s*(['\"])([^'\"]{1,300})\1"
)
_MAX_MATCHES = 20
_MAX_CODE_LENGTH = 20_000


def read_other(arg: CommandArg, walker: Walker, location: CodeLocation) -> None:
    """Judge `arg` as code in a language without a parser."""
    text = arg.text[:_MAX_CODE_LENGTH]
    inner = location._replace(
        source=location.source.map_arg(arg), depth=location.depth + 1, pipe_start=-1
    )
    for rule in _match_shapes(text):
        walker.report(CommandHit(rule, "code"), 0, len(arg.text), "code", inner)
    for command in _shell_strings(text):
        walker.walk_shell(command, inner)
    for match in islice(_DELETE.finditer(text), _MAX_MATCHES):
        target = CommandArg(match[2], match.start(2), match.end(2))
        tree = not match[0].lower().startswith("unlink")
        effect = FileEffect(EffectKind.DELETE, target, tree=tree)
        walker.report_effect(effect, match.start(), match.end(), "code", inner)


def _match_shapes(text: str) -> Iterator[str]:
    """Yield the rules that match the code as a whole."""
    if _SOCKET.search(text) and _SHELL.search(text):
        yield "REVERSE_SHELL"
    if not _EVAL.search(text):
        return
    if _FETCH.search(text):
        yield "DOWNLOAD_RUN"
    elif _DECODE.search(text):
        yield "DECODED_RUN"


def _shell_strings(text: str) -> Iterator[CommandArg]:
    """Yield the strings that the code passes to a shell."""
    for pattern in (_STARTS, _BACKTICKS, _PIPED):
        for match in islice(pattern.finditer(text), _MAX_MATCHES):
            group = match.lastindex or 0
            raw = match[group]
            plain = raw.replace('\\"', '"').replace("\\'", "'")
            offset = match.start(group) if plain == raw else None
            yield CommandArg(plain, match.start(group), match.end(group), offset=offset)
