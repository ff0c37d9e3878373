"""Choose the reader for a file by its name and first bytes; read Markdown; report unread files.

A Markdown file that hosts hand to the agent (`SKILL.md`, a command, a prompt) is an instruction. A
README is for people first, so the same words weigh one step less there.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from demur.guards.code_execution.event import Language
from demur.guards.code_execution.files import CodePart, find_code_parts, split_cell
from demur.guards.skill.event import SkillConfig
from demur.guards.skill.manifest_file import scan_front_matter, scan_manifest, scan_requirements
from demur.guards.skill.python_checks import find_path_file_code
from demur.guards.skill.python_effects import find_drop_hosts
from demur.guards.skill.python_file import find_codec, scan_python
from demur.guards.skill.rules import SkillHit, soften_action
from demur.guards.skill.text_checks import (
    find_credentials,
    find_hidden_text,
    find_instructions,
    find_strange_characters,
    scan_shell,
)
from demur.guards.static.source_text import SourceText
from demur.model.finding import Action

_NATIVE = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"(\xb5/\xfd")
_BYTECODE = (".pyc", ".pyo")
# Programs that take code of a file's language on their command line.
_INTERPRETERS: Mapping[str, str] = {
    **dict.fromkeys((".cjs", ".js", ".mjs", ".ts"), "node -e"),
    ".lua": "lua -e",
    ".php": "php -r",
    ".pl": "perl -e",
    ".rb": "ruby -e",
}
_LANGUAGES: Mapping[str, str] = {
    **dict.fromkeys((".cjs", ".js", ".mjs"), "JavaScript"),
    ".go": "Go",
    ".lua": "Lua",
    ".php": "PHP",
    ".pl": "Perl",
    ".rb": "Ruby",
    ".ts": "TypeScript",
    ".vbs": "VBScript",
}
# A request whose content is the whole environment, in JavaScript.
_ENVIRONMENT_SENT = re.compile(
    r"\b(?:fetch|axios|request|got|post|write|send|end)\b[^;]{0,300}"
    r"(?:JSON\.stringify\(\s*process\.env\s*[,)]|\{\s*\.\.\.process\.env\s*\})"
)
# A program in one of these folders is meant to run.
_RUN_FOLDERS = frozenset({"bin", "hooks", "scripts", "tools"})
_UNCHECKED = 1
_MAX_LITERAL_CODE = 50_000
_CHECKED_HASH = 3


def is_binary(data: bytes) -> bool:
    """Return whether the content is not text."""
    return b"\0" in data[:8192]


def report_unread_file(path: str, data: bytes) -> Iterator[SkillHit]:
    """Yield a hit for a file that could run and is not read."""
    place = PurePosixPath(path)
    if data.startswith(_NATIVE):
        yield SkillHit("FILE_BINARY", 0, 0, "a compiled program or library")
    elif data.startswith(_PACKED):
        yield SkillHit("FILE_BINARY", 0, 0, "a packed file")
    elif is_binary(data):
        return
    elif language := _LANGUAGES.get(place.suffix.lower()) or _shebang_program(data):
        runs = data.startswith(b"#!") or bool(_RUN_FOLDERS.intersection(place.parts[:-1]))
        action = Action.ESCALATE if runs else None
        yield SkillHit("FILE_LANGUAGE", 0, 0, f"a program in {language}", action=action)
        if interpreter := _INTERPRETERS.get(place.suffix.lower()):
            text = data[:_MAX_LITERAL_CODE].decode("utf-8", "replace").replace("\0", " ")
            if found := _ENVIRONMENT_SENT.search(text):
                detail = "sends the whole environment"
                yield SkillHit("PY_SECRET_SENT", *found.span(), detail)
            for hit in scan_shell(f"{interpreter} {shlex.quote(text)}"):
                if hit.action is Action.BLOCK:
                    yield hit._replace(start=0, end=0)


def _shebang_program(data: bytes) -> str | None:
    if not data.startswith(b"#!"):
        return None
    line = data.partition(b"\n")[0].decode("utf-8", "replace")
    words = line[2:].split()
    name = PurePosixPath(words[0]).name if words else ""
    if name == "env" and len(words) > 1:
        name = words[-1]
    return f"`{name[:20]}`"


def find_bytecode(path: str, data: bytes, files: Mapping[str, bytes]) -> Iterator[SkillHit]:
    """Yield bytecode without a source file, or that Python never compares with its source."""
    if not path.endswith(_BYTECODE):
        return
    place = PurePosixPath(path)
    folder = place.parent.parent if place.parent.name == "__pycache__" else place.parent
    source = str(folder / f"{place.name.split('.', 1)[0]}.py")
    if source not in files:
        yield SkillHit("FILE_BYTECODE", 0, 0, "bytecode without its source")
    elif int.from_bytes(data[4:8], "little") & _CHECKED_HASH == _UNCHECKED:
        yield SkillHit("FILE_BYTECODE", 0, 0, "bytecode that is never held against its source")


_READ_BY_AGENTS = frozenset(
    {"agents.md", "claude.md", "gemini.md", "skill.md", "copilot-instructions.md", ".cursorrules"}
)
_FOLDERS = frozenset({"agents", "commands", "prompts", "rules", "skills", "references"})
_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=mark)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SHELL_FENCES = frozenset({"bash", "console", "sh", "shell", "shell-session", "zsh"})
_PYTHON_FENCES = frozenset({"py", "python", "python3"})
# Lines of a notebook that a shell runs.
_MAGIC = re.compile(r"^[ \t]*(?:!|%%?(?:bash|sh|script|sx|system)\b)", re.MULTILINE)
# Commands in the middle of a sentence that feed a shell or send what a command prints.
_INLINE = re.compile(
    r"(?<!`)`([^`\n]{4,400}(?:\|[ \t]*(?:sudo[ \t]+)?(?:ba|z|da)?sh\b|\$\((?:cat|env|base64)\b)"
    r"[^`\n]{0,200})`"
)
# A command that names its address by a stand-in is talked about.
_STAND_IN = re.compile(
    r"(?:curl|wget)[ \t]+(?:-\S+[ \t]+)*(?:\.{3}|\u2026|URL|<\w+>)[ \t]*\|", re.ASCII
)
_PROMPT = re.compile(r"^[ \t]*(?:\$|%|>|#)[ \t]", re.MULTILINE)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*$", re.MULTILINE | re.DOTALL)
_ON_LOAD = re.compile(r"(?:^|(?<=\s))!`([^`\n]+)`", re.MULTILINE)


def is_instruction(path: str) -> bool:
    """Return whether hosts hand the file to an agent."""
    place = PurePosixPath(path)
    folders = {part.lower() for part in place.parts[:-1]}
    return place.name.lower() in _READ_BY_AGENTS or bool(folders & _FOLDERS)


def scan_markdown(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield instructions, hidden text, and the hits in commands and code of the text."""
    is_order = is_instruction(document.path)
    for hit in _scan_text(document, config):
        if is_order or hit.action is None:
            yield hit
        else:
            yield hit._replace(action=soften_action(hit.action))


def _scan_text(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    text = document.text
    yield from find_hidden_text(text, list(find_instructions(text)))
    if front := _FRONT.match(text):
        yield from _shift_hits(scan_front_matter(front[1], config), front.start(1))
    for command in _ON_LOAD.finditer(text):
        yield SkillHit("RUNS_ON_LOAD", *command.span(), "a command that runs when this is loaded")
        yield from _shift_hits(scan_shell(command[1]), command.start(1))
    for fence in _FENCE.finditer(text):
        yield from _scan_fence(document.path, fence, config)
    for span in _INLINE.finditer(text):
        if _STAND_IN.match(span[1]):
            continue
        yield from _shift_hits(scan_shell(span[1]), span.start(1))


def _shift_hits(hits: Iterator[SkillHit], offset: int) -> Iterator[SkillHit]:
    for hit in hits:
        yield hit._replace(start=hit.start + offset, end=hit.end + offset)


def _scan_fence(path: str, fence: re.Match[str], config: SkillConfig) -> Iterator[SkillHit]:
    language, text, start = fence["language"].lower(), fence["body"], fence.start("body")
    if language in _SHELL_FENCES:
        if language in {"console", "shell-session"} or _PROMPT.match(text):
            text = _prompt_commands(text)
        yield from _shift_hits(scan_shell(text), start)
    elif language in _PYTHON_FENCES and _MAGIC.search(text):
        for hit in _scan_parts(path, split_cell(text), config):
            yield hit._replace(start=start, end=fence.end("body"))
    elif language in _PYTHON_FENCES:
        lines = (line for line in text.splitlines() if line.strip())
        indented = min((len(line) - len(line.lstrip()) for line in lines), default=0) > 0
        # Parse an indented fence as the body of a block, so that offsets stay the same.
        head = "if 1:\n" if indented else ""
        hits = scan_python(SourceText(path, head + text), config, snippet=True)
        yield from _shift_hits(hits, start - len(head))


def _scan_parts(path: str, parts: Iterator[CodePart], config: SkillConfig) -> Iterator[SkillHit]:
    """Yield the hits in the code of a file that holds several pieces of it."""
    for part in parts:
        if part.language is Language.PYTHON:
            hits = scan_python(SourceText(path, part.text), config, snippet=True)
        else:
            hits = scan_shell(part.text, part.language)
        yield from (hit._replace(start=0, end=0) for hit in hits)


def _prompt_commands(text: str) -> str:
    """Return the lines after a prompt at their offsets; output lines become blanks."""
    lines = []
    for line in text.split("\n"):
        prompt = _PROMPT.match(line)
        width = prompt.end() if prompt else len(line)
        lines.append(" " * width + line[width:])
    return "\n".join(lines)


_OTHER_SHELLS: Mapping[str, Language] = {
    ".bat": Language.CMD,
    ".cmd": Language.CMD,
    ".ps1": Language.POWERSHELL,
    ".psm1": Language.POWERSHELL,
}
_KINDS = {
    # Stubs (`.pyi`) never run.
    **dict.fromkeys((".py", ".pyw"), "python"),
    **dict.fromkeys((".bash", ".command", ".ksh", ".sh", ".zsh"), "shell"),
    **dict.fromkeys(_OTHER_SHELLS, "other shell"),
    **dict.fromkeys((".markdown", ".md", ".mdc", ".mdx", ".prompt", ".txt", ".rst"), "prose"),
    ".pth": "path",
    ".ipynb": "parts",
    ".mk": "parts",
}
_PARTED = re.compile(r"(?:gnu)?makefile|justfile", re.IGNORECASE)
_MANIFESTS = re.compile(
    r"(?:\.?mcp|skill|plugin|manifest|package|settings(?:\.local)?|hooks|marketplace|tools?"
    r"|claude_desktop_config|gemini-extension)\.(?:json|jsonc|ya?ml|toml)|pyproject\.toml",
    re.IGNORECASE,
)
_REQUIREMENTS = re.compile(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|in)", re.IGNORECASE)
_MAX_TEXT_LENGTH = 3_000_000
_SHEBANG = re.compile(rb"#![^\n]*\b(?:(ba|z|k|da)?sh|(python[\d.]*))\b")


def scan_file(
    document: SourceText, data: bytes, files: Mapping[str, bytes], config: SkillConfig
) -> Iterator[SkillHit]:
    """Yield the hits in one file, read by its kind."""
    yield from find_bytecode(document.path, data, files)
    kind = _file_kind(document.path, data)
    if not is_binary(data):
        yield from find_credentials(document.text)
    if kind is None:
        yield from report_unread_file(document.path, data)
        return
    if len(document.text) > _MAX_TEXT_LENGTH:
        end = _MAX_TEXT_LENGTH
        yield SkillHit("UNPARSED", end, end, "too long to be read to its end")
        document = SourceText(document.path, document.text[:end])
    yield from _scan_kind(kind, document, data, config)


def _file_kind(path: str, data: bytes) -> str | None:
    """Return the kind of the file, or None if no reader takes it."""
    place = PurePosixPath(path)
    suffix = place.suffix.lower()
    if _REQUIREMENTS.fullmatch(place.name):
        return "requirements"
    if suffix in _KINDS:
        return _KINDS[suffix]
    for names, kind in ((_MANIFESTS, "manifest"), (_PARTED, "parts")):
        if names.fullmatch(place.name):
            return kind
    found = None if is_binary(data) else _SHEBANG.match(data)
    return found and ("python" if found[2] else "shell")


_PROSE_KINDS = frozenset({"prose", "manifest", "requirements", "parts"})


def _scan_kind(kind: str, file: SourceText, data: bytes, config: SkillConfig) -> Iterator[SkillHit]:
    text = file.text
    yield from find_strange_characters(text, code=kind not in _PROSE_KINDS)
    yield from find_drop_hosts(text, config)
    match kind:
        case "python":
            yield from find_codec(data)
            yield from scan_python(file, config)
        case "shell":
            yield from scan_shell(text)
        case "other shell":
            suffix = PurePosixPath(file.path).suffix.lower()
            yield from scan_shell(text, _OTHER_SHELLS[suffix])
        case "prose":
            yield from scan_markdown(file, config)
        case "manifest":
            yield from scan_manifest(file, config)
        case "requirements":
            yield from scan_requirements(file, config)
        case "parts":
            yield from _scan_parts(file.path, find_code_parts(file.path, text), config)
        case _:
            yield from find_path_file_code(file)
            yield from scan_python(file, config, snippet=True)
