"""Files that are not read: compiled, packed, or in a language that nothing here parses."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from demur.guards.skill.sighting import SkillHit
from demur.model.finding import Action

__all__ = ["is_binary", "find_bytecode", "report_unread_file"]

_NATIVE = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa")
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"(\xb5/\xfd")
_BYTECODE = (".pyc", ".pyo")
_LANGUAGES: Mapping[str, str] = {
    ".cjs": "JavaScript",
    ".go": "Go",
    ".js": "JavaScript",
    ".lua": "Lua",
    ".mjs": "JavaScript",
    ".php": "PHP",
    ".pl": "Perl",
    ".rb": "Ruby",
    ".ts": "TypeScript",
    ".vbs": "VBScript",
}
# A program in one of these folders is meant to run.
_RUN_FOLDERS = frozenset({"bin", "hooks", "scripts", "tools"})
_UNCHECKED = 1
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
