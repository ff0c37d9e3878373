"""Which reader a file goes to, by its name and its first bytes."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from demur.guards.code_execution.event import Language
from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.credential import find_credentials
from demur.guards.skill.document import SourceText
from demur.guards.skill.manifest_file import scan_manifest, scan_requirements
from demur.guards.skill.markdown_file import scan_markdown
from demur.guards.skill.obfuscation import find_strange_characters
from demur.guards.skill.other_file import is_binary, find_bytecode, report_unread_file
from demur.guards.skill.python_file import scan_python, find_codec
from demur.guards.skill.python_install import find_path_file_code
from demur.guards.skill.python_secret import find_drop_hosts
from demur.guards.skill.shell_file import scan_shell
from demur.guards.skill.sighting import SkillHit

__all__ = ["scan_file"]

# Stubs (`.pyi`) never run.
_PYTHON_SUFFIXES = frozenset({".py", ".pyw"})
_SHELL_SUFFIXES = frozenset({".bash", ".command", ".ksh", ".sh", ".zsh"})
_OTHER_SHELLS: Mapping[str, Language] = {
    ".bat": Language.CMD,
    ".cmd": Language.CMD,
    ".ps1": Language.POWERSHELL,
    ".psm1": Language.POWERSHELL,
}
_PROSE_SUFFIXES = frozenset({".markdown", ".md", ".mdc", ".mdx", ".prompt", ".txt", ".rst"})
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
        yield SkillHit(
            "UNPARSED", _MAX_TEXT_LENGTH, _MAX_TEXT_LENGTH, "too long to be read to its end"
        )
        document = SourceText(document.path, document.text[:_MAX_TEXT_LENGTH])
    yield from _scan_kind(kind, document, data, config)


def _file_kind(path: str, data: bytes) -> str | None:
    """Return the kind of the file, or None if no reader takes it."""
    place = PurePosixPath(path)
    suffix = place.suffix.lower()
    named = {**dict.fromkeys(_PYTHON_SUFFIXES, "python"), **dict.fromkeys(_SHELL_SUFFIXES, "shell")}
    named |= {
        **dict.fromkeys(_OTHER_SHELLS, "other shell"),
        **dict.fromkeys(_PROSE_SUFFIXES, "prose"),
    }
    named[".pth"] = "path"
    if _REQUIREMENTS.fullmatch(place.name):
        return "requirements"
    if suffix in named:
        return named[suffix]
    if _MANIFESTS.fullmatch(place.name):
        return "manifest"
    if is_binary(data):
        return None
    if found := _SHEBANG.match(data):
        return "python" if found[2] else "shell"
    return None


def _scan_kind(
    kind: str, document: SourceText, data: bytes, config: SkillConfig
) -> Iterator[SkillHit]:
    text = document.text
    yield from find_strange_characters(text, code=kind not in {"prose", "manifest", "requirements"})
    yield from find_drop_hosts(text, config)
    match kind:
        case "python":
            yield from find_codec(data)
            yield from scan_python(document, config)
        case "shell":
            yield from scan_shell(text)
        case "other shell":
            suffix = PurePosixPath(document.path).suffix.lower()
            yield from scan_shell(text, _OTHER_SHELLS[suffix])
        case "prose":
            yield from scan_markdown(document, config)
        case "manifest":
            yield from scan_manifest(document, config)
        case "requirements":
            yield from scan_requirements(document, config)
        case _:
            yield from find_path_file_code(document)
            yield from scan_python(document, config, snippet=True)
