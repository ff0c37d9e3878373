"""Ask the process that is kept warm, if there is one: it has loaded what takes long to load.

Needs the standard library alone. Who answers must be the same user: the socket is that user's
and lies in a folder that nobody else can enter. Whatever is odd about an answer, it counts as
none.
"""

import json
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from demur.integrations.claude_code.emergency import BLOCKED, Ending
from demur.version import __version__

if sys.platform != "win32":
    import fcntl

__all__ = [
    "CAN_WARM",
    "alone",
    "ask_warm",
    "can_listen",
    "is_private",
    "is_starting",
    "socket_path",
    "start_warm",
    "surroundings",
]

# Elsewhere each hook judges by itself.
CAN_WARM = sys.platform != "win32"

_LARGEST_ANSWER = 64_000_000
_OTHERS = 0o077
# The shortest limit of the systems that have such sockets, less the zero at its end.
_LONGEST_PATH = 103
# Who only looks whether a lock is held holds it for a moment, too.
_TRIES = 5
_MOMENT_S = 0.02


# What is judged depends on them: who lives in other surroundings asks somebody else.
_PLACES = ("CLAUDE_CONFIG_DIR", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_LISTS = ("DEMUR_REGISTRY", "PYTHONPATH")


def surroundings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables by which is judged, with paths that mean the same from any folder."""
    known = os.environ if environment is None else environment
    given = {name: known.get(name, "") for name in (*_PLACES, *_LISTS)}
    whole = {name: _whole(given[name]) for name in _PLACES}
    for name in _LISTS:
        whole[name] = os.pathsep.join(map(_whole, given[name].split(os.pathsep)))
    return {name: value for name, value in whole.items() if value}


def _whole(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def socket_path(
    state: Path, words: Sequence[str], environment: Mapping[str, str] | None = None
) -> Path:
    """Return where the process listens that was started with `words`, by this version of demur."""
    told = json.dumps([__version__, *words, surroundings(environment)])
    return state / f"warm-{sha256(told.encode()).hexdigest()[:12]}.sock"


def can_listen(path: Path) -> bool:
    """Return whether a socket can have that name, and none but ours could be there."""
    return len(os.fsencode(path)) <= _LONGEST_PATH and is_private(path.parent)


def is_private(folder: Path) -> bool:
    """Return whether nobody else can enter a folder, so that nobody else can answer there."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    is_folder = stat.S_ISDIR(facts.st_mode)
    return is_folder and facts.st_uid == os.getuid() and not facts.st_mode & _OTHERS


def _is_our_socket(path: Path) -> bool:
    facts = path.lstat()
    return stat.S_ISSOCK(facts.st_mode) and facts.st_uid == os.getuid()


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Yield whether this is the only process to listen at `path`, for as long as it is held."""
    handle = os.open(_lock_of(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield any(_is_locked(handle, wait_s=_MOMENT_S * bool(number)) for number in range(_TRIES))
    finally:
        os.close(handle)


def is_starting(path: Path) -> bool:
    """Return whether a process is about to listen at `path`, but does not yet."""
    if path.exists() or not can_listen(path):
        return False
    try:
        handle = os.open(_lock_of(path), os.O_RDWR)
    except OSError:
        return False
    try:
        return not _is_locked(handle)
    finally:
        os.close(handle)


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


def _is_locked(handle: int, *, wait_s: float = 0) -> bool:
    """Return whether a file could be locked, and so was not before."""
    time.sleep(wait_s)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ask_warm(path: Path, raw: bytes, project: str, *, timeout_s: float) -> Ending | None:
    """Return how the hook with input `raw` ends, or None if nobody there can say."""
    if not can_listen(path):
        return None
    try:
        if not _is_our_socket(path):
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(str(path))
            line.sendall(json.dumps(project).encode() + b"\n" + raw)
            line.shutdown(socket.SHUT_WR)
            return _ending(_all_of(line))
    except (OSError, ValueError, RecursionError):
        return None


def start_warm(words: Sequence[str], folder: Path) -> None:
    """Start the process that will listen, apart from this one; whether it does is seen later."""
    # Who only asks needs none of it.
    subprocess = import_module("subprocess")
    silent = subprocess.DEVNULL
    try:
        subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **surroundings()},
            stdin=silent,
            stdout=silent,
            stderr=silent,
            start_new_session=True,
            close_fds=True,
        )
    except OSError:
        return


def _all_of(line: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := line.recv(65_536):
        size += len(part)
        if size > _LARGEST_ANSWER:
            return b""
        parts.append(part)
    return b"".join(parts)


def _ending(answer: bytes) -> Ending | None:
    """Return the ending that an answer tells of, if it is one in whole."""
    # INVARIANT: an answer that was cut short or is no answer is none.
    told: Any = json.loads(answer)
    if not isinstance(told, list) or len(told) != 3:
        return None
    status, stdout, stderr = told
    if status not in (0, BLOCKED) or not isinstance(stdout, str) or not isinstance(stderr, str):
        return None
    return Ending(int(status), stdout, stderr)
