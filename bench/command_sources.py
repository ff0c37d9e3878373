"""Collect commands that people type, from the files of installed packages.

Makefiles, CI files, `tox.ini`, scripts of `package.json`, and code blocks of READMEs and package
descriptions. Nothing is copied: the files are read when a bench runs, and nothing in them is run.

A variable of a Makefile or a template (`$(CC)`, `${{ matrix.os }}`, `{posargs}`) is replaced by its
value if the file defines it, else by its name in lower case, because the tool does so before a
shell reads the line. Lines that begin with no word, and stack traces, are output and left out.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from pathlib import Path
from typing import Any

import yaml

DEFAULT_FOLDERS = (
    *sorted({Path(sys.prefix).parent, Path.cwd()}),
    Path("/usr/lib/python3/dist-packages"),
    Path("/usr/lib/node_modules"),
    Path("/usr/share/doc"),
    Path.home() / ".pyenv",
)
_PACKAGES = re.compile(r"/(?:site-packages|dist-packages|node_modules|share/doc|\.pyenv)/")
_OWN = re.compile(r"/demur[^/]*/")
_MAX_FILE_SIZE = 400_000
_MAX_COMMAND_LENGTH = 4_000
_SHELL_NAMES = "bash|sh|shell|zsh|console|shell-session|terminal"
_FENCE = re.compile(rf"(?ms)^[ \t]*```[ ]*(?:{_SHELL_NAMES})\b[^\n]*\n(.*?)^[ \t]*```")
_DIRECTIVE = re.compile(
    rf"(?m)^([ \t]*)\.\. (?:code-block|code|sourcecode)::[ ]*(?:{_SHELL_NAMES})[^\n]*\n"
    r"((?:\1[ \t]+[^\n]*\n|[ \t]*\n)+)"
)
_PROMPT = re.compile(r"(?m)^[ \t]*\$ (\S[^\n]*(?:\\\n[^\n]*)*)")
_COMPOUND = re.compile(r"<<|\b(?:do|then)\b|\bcase\b.*\bin\b|\{\s*$", re.MULTILINE)
_COMMAND = re.compile(r"(?!at \S+ \(|\w*Error: )[\w./~$(\[{:!\"'\\-]")
_MAKE_NAME = re.compile(r"\$[({]([A-Za-z_][\w.-]*)[)}]|\$([@<^*?%])")
_MAKE_SETTING = re.compile(r"(?m)^(?:export )?([A-Za-z_][\w.-]*)[ \t]*[:?]?=[ \t]*([^\n#]*)$")
_MAKE_VALUES = {"CC": "cc", "RM": "rm -f", "MAKE": "make", "AR": "ar", "SHELL": "sh", "CURDIR": "."}
_TEMPLATE = re.compile(r"\$\{\{\s*([\w.\-]*)[^}]*\}\}|(?<!\$)\{([a-z_]+)(?::[^{}]*)?\}")
_TRAVIS = ("before_install", "install", "before_script", "script", "after_success", "deploy")


def collect_commands(folders: Iterable[Path]) -> dict[str, list[tuple[str, str]]]:
    """Return the commands of each kind of file, each once, with the file that holds it."""
    sets: dict[str, dict[str, str]] = {kind: {} for kind in _READERS}
    for path in sorted(set(_iter_files(folders))):
        kind = _kind_of_file(path)
        text = _read_text(path)
        for command in _READERS[kind](text) if kind and text else ():
            plain = command.strip()
            if _COMMAND.match(plain) and len(plain) <= _MAX_COMMAND_LENGTH:
                sets[kind].setdefault(plain, str(path))
    return {kind: list(found.items()) for kind, found in sets.items()}


def _iter_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for path in folder.rglob("*") if folder.is_dir() else ():
            name = f"{path}"
            if _PACKAGES.search(name) and not _OWN.search(name) and _kind_of_file(path):
                yield path


def _kind_of_file(path: Path) -> str:
    name = path.name.lower()
    if name in {"makefile", "gnumakefile"} or name.endswith(".mk"):
        return "Makefiles"
    if name.endswith((".yml", ".yaml")) and (".github" in path.parts or name.startswith(".")):
        return "CI files"
    if name in {"package.json", "tox.ini"}:
        return "package scripts"
    described = name.endswith((".md", ".rst")) or name.startswith(("readme", "metadata", "install"))
    return "READMEs and docs" if described and not name.endswith((".py", ".html")) else ""


def _read_text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_FILE_SIZE:
            return ""
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, UnicodeDecodeError):
        return ""


def _makefile_commands(text: str) -> Iterator[str]:
    settings = _MAKE_VALUES | dict(_MAKE_SETTING.findall(text))

    def fill(match: re.Match[str]) -> str:
        name = match[1] or "target"
        value = settings.get(name, "").strip()
        return value if value and "$" not in value else name.lower()

    for line in re.findall(r"(?m)^\t\s*(\S[^\n]*)", re.sub(r"\\\n\s*", " ", text)):
        plain = _MAKE_NAME.sub(fill, line.lstrip("@-+ "))
        if "$(" not in plain.replace("$$(", ""):  # a function of make is not expanded here
            yield plain.replace("$$", "$")


def _ci_commands(text: str) -> Iterator[str]:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    for command in _find_scripts(document):
        yield _TEMPLATE.sub(lambda match: (match[1] or match[2] or "value").lower(), command)


def _find_scripts(value: Any) -> Iterator[str]:
    """Yield the texts under the keys that CI services give to a shell."""
    if isinstance(value, list):
        for item in value:
            yield from _find_scripts(item)
    elif isinstance(value, dict) and "python" not in str(value.get("shell", "")):
        for key, item in value.items():
            if key in {"run", *_TRAVIS} and isinstance(item, str | list):
                parts = item if isinstance(item, list) else [item]
                yield from (part for part in parts if isinstance(part, str))
            else:
                yield from _find_scripts(item)


def _package_commands(text: str) -> Iterator[str]:
    if text.lstrip().startswith("{"):
        try:
            scripts = json.loads(text).get("scripts", {})
        except ValueError:
            return
        yield from (item for item in dict(scripts or {}).values() if isinstance(item, str))
        return
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except ConfigError:
        return
    for section in parser.sections():
        lines = parser[section].get("commands", "").replace("\\\n", " ").splitlines()
        yield from (_TEMPLATE.sub(lambda match: match[2] or "value", line) for line in lines)


def _document_commands(text: str) -> Iterator[str]:
    blocks = [*_FENCE.findall(text), *(found[1] for found in _DIRECTIVE.findall(text))]
    for block in blocks:
        if prompted := _PROMPT.findall(block):
            yield from prompted
        elif _COMPOUND.search(block):
            yield block
        else:
            yield from block.replace("\\\n", " ").splitlines()
    if not blocks:
        yield from _PROMPT.findall(text)


_READERS = {
    "Makefiles": _makefile_commands,
    "CI files": _ci_commands,
    "package scripts": _package_commands,
    "READMEs and docs": _document_commands,
}
