"""Payloads of generated programs: a destructive command, and a marker of the same shape."""

import codecs
import hashlib
import shlex
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

__all__ = ["PAYLOADS", "VICTIM_FILE", "VICTIM_FOLDER", "Draw", "Payload", "Wording"]

T = TypeVar("T")
VICTIM_FOLDER = "vict"
VICTIM_FILE = "vict/a_file"


class Payload(NamedTuple):
    """A destructive command, and the marker program that stands for it in the harmless form.

    Both names have the same length, so that encodings and slices fit both forms.
    """

    name: str
    marker: str
    args: tuple[str, ...]

    def words(self, *, harmless: bool) -> tuple[str, ...]:
        """Return the words of one form."""
        return (self.marker if harmless else self.name, *self.args)


PAYLOADS = (
    Payload("rm", "qz", ("-rf", "/")),
    Payload("rm", "qz", ("-rf", "/etc")),
    Payload("rm", "qz", ("-fr", "/usr")),
    Payload("rm", "qz", ("-r", "-f", "/")),
    Payload("dd", "qy", ("if=/dev/zero", "of=/dev/sda")),
    Payload("chmod", "qzmod", ("-R", "777", "/")),
)


class Draw:
    """The choices of one program: the same seed makes the same choices for both of its forms."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        digest = hashlib.sha256(f"{self._seed} {self._count}".encode()).digest()
        return int.from_bytes(digest[:6])

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`."""
        return items[self._next() % len(items)]

    def happens(self, share: float) -> bool:
        """Return True in this share of the cases."""
        return self._next() % 1000 < 1000 * share


def _escape(text: str, form: str) -> str:
    return "".join(form.format(ord(character)) for character in text)


def _swap_text(text: str) -> str:
    return codecs.encode(text, "rot13")


def _encode_text(text: str) -> str:
    return b64encode(text.encode()).decode()


class Wording(NamedTuple):
    """What a row of templates may name: the words of the payload, and the code around them."""

    words: tuple[str, ...]
    code: str
    names: tuple[str, str, str]
    harmless: bool

    def slot(self, name: str) -> str:
        """Return the text of a slot."""
        return _SLOTS[name](self)


def _python_code(wording: Wording) -> str:
    return f"import os\nos.system({wording.code!r})"


def _perl_code(wording: Wording) -> str:
    return f"system(q\x01{wording.code}\x01)".replace("\x01", "~")


def _folder(wording: Wording) -> str:
    return VICTIM_FOLDER if wording.harmless else "/etc"


def _file(wording: Wording) -> str:
    return VICTIM_FILE if wording.harmless else "/etc/passwd"


_SLOTS: dict[str, Callable[[Wording], str]] = {
    # The words of the payload.
    "n": lambda w: w.words[0],
    "a": lambda w: " ".join(w.words[1:]),
    "w": lambda w: " ".join(w.words),
    "first": lambda w: w.words[1],
    "rest": lambda w: " ".join(w.words[2:]),
    "last": lambda w: w.words[-1],
    "middle": lambda w: " ".join(w.words[:-1]),
    "n1": lambda w: w.words[0][:1],
    "n2": lambda w: w.words[0][1:],
    "nup": lambda w: w.words[0].upper(),
    "nrev": lambda w: w.words[0][::-1],
    "nx": lambda w: "X".join(w.words[0]),
    "nhex": lambda w: _escape(w.words[0], "\\x{:02x}"),
    "noct": lambda w: _escape(w.words[0], "\\{:03o}"),
    "nuni": lambda w: _escape(w.words[0], "\\u{:04x}"),
    "ndump": lambda w: w.words[0].encode().hex(),
    "nb64": lambda w: _encode_text(w.words[0]),
    "nrot": lambda w: _swap_text(w.words[0]),
    "ahex": lambda w: _escape(w.words[-1], "\\x{:02x}"),
    "aoct": lambda w: _escape(w.words[-1], "\\{:03o}"),
    "commas": lambda w: ",".join(w.words),
    "colons": lambda w: ":".join(w.words),
    "lines": lambda w: "\\n".join(w.words),
    "count": lambda w: str(len(w.words)),
    "acount": lambda w: str(len(w.words) - 1),
    "plist": lambda w: repr(list(w.words)),
    "qlist": lambda w: ", ".join(f'"{word}"' for word in w.words),
    # The code around the payload.
    "c": lambda w: w.code,
    "q": lambda w: shlex.quote(w.code),
    "dq": lambda w: (
        '"' + w.code.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
    ),
    "qq": lambda w: shlex.quote(shlex.quote(w.code)),
    "hex": lambda w: _escape(w.code, "\\x{:02x}"),
    "oct": lambda w: _escape(w.code, "\\{:03o}"),
    "zeroct": lambda w: _escape(w.code, "\\0{:03o}"),
    "dump": lambda w: w.code.encode().hex(),
    "b64": lambda w: _encode_text(w.code),
    "b64b64": lambda w: _encode_text(_encode_text(w.code)),
    "rev": lambda w: shlex.quote(w.code[::-1]),
    "rot": lambda w: shlex.quote(_swap_text(w.code)),
    "xcode": lambda w: shlex.quote("%".join(w.code)),
    "spaced": lambda w: w.code.replace(" ", "${IFS}"),
    "awk": lambda w: w.code.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "; "),
    # Names of variables, functions and files.
    "v": lambda w: w.names[0],
    "u": lambda w: w.names[1],
    "f": lambda w: w.names[2],
    # Code in other languages.
    "s": lambda w: repr(w.code),
    "pn": lambda w: repr(w.words[0]),
    "bs": lambda w: repr(w.code.encode()),
    "py": lambda w: repr(_python_code(w)),
    "pyeval": lambda w: repr(f"__import__('os').system({w.code!r})"),
    "pyb64": lambda w: repr(_encode_text(_python_code(w))),
    "pyhex": lambda w: repr(_python_code(w).encode().hex()),
    "pyrot": lambda w: repr(_swap_text(_python_code(w))),
    "pyrev": lambda w: repr(_python_code(w)[::-1]),
    "pyords": lambda w: repr([ord(character) for character in _python_code(w)]),
    "pyplus": lambda w: repr("".join(chr(ord(c) + 1) for c in _python_code(w))),
    "ords": lambda w: repr([ord(character) for character in w.code]),
    "srev": lambda w: repr(w.code[::-1]),
    "sb64": lambda w: repr(_encode_text(w.code)),
    "folder": _folder,
    "file": _file,
    "pl": _perl_code,
    "pldump": lambda w: _perl_code(w).encode().hex(),
    "plb64": lambda w: _encode_text(_perl_code(w)),
    "plrev": lambda w: _perl_code(w)[::-1],
    "pldots": lambda w: ".".join(f"chr({ord(character)})" for character in w.code),
    "plords": lambda w: ",".join(str(ord(character)) for character in w.code),
    "crot": lambda w: _swap_text(w.code),
    "crev": lambda w: w.code[::-1],
    "csed": lambda w: w.code.replace("/", "\\/"),
    "aesc": lambda w: " ".join(w.words[1:]).replace("/", "\\/"),
    "ext": lambda w: w.code.replace(" ", "% "),
    "jsb64": lambda w: _encode_text(f"require('child_process').execSync(`{w.code}`)"),
}
