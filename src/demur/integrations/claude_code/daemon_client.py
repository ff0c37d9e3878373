"""Ask the hook daemon, if one runs: it has loaded already what takes long to load.

Needs the standard library alone. The daemon must belong to the same user: its socket is that
user's and lies in a folder that nobody else can enter. An invalid answer counts as none.
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

from demur.integrations.claude_code.fallback import BLOCKED, HookExit
from demur.version import __version__

if sys.platform != "win32":
    import fcntl


# Without Unix sockets each hook judges by itself.
SUPPORTS_DAEMON = sys.platform != "win32"

_MAX_ANSWER_BYTES = 64_000_000
_OTHERS_MODE = 0o077
# The shortest limit of all systems with such sockets, without the terminating NUL.
_MAX_SOCKET_PATH = 103
# A process that only tests the lock holds it for a moment, so retry.
_LOCK_TRIES = 5
_LOCK_PAUSE_S = 0.02


# Judgements depend on these variables, so each environment has a daemon of its own.
_PATH_VARIABLES = ("CLAUDE_CONFIG_DIR", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_PATH_LIST_VARIABLES = ("DEMUR_REGISTRY",)


def relevant_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that judgements depend on, with absolute paths."""
    known = os.environ if environment is None else environment
    absolute = {}
    for name in (*_PATH_VARIABLES, *_PATH_LIST_VARIABLES):
        value = known.get(name, "")
        paths = value.split(os.pathsep) if name in _PATH_LIST_VARIABLES else [value]
        absolute[name] = os.pathsep.join(str(Path(one).absolute()) if one else "" for one in paths)
    return {name: value for name, value in absolute.items() if value}


def socket_path(
    state: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Path:
    """Return the socket path of the daemon with this command line and version of demur."""
    identity = json.dumps([__version__, *command, relevant_environment(environment)])
    return state / f"warm-{sha256(identity.encode()).hexdigest()[:12]}.sock"


def can_listen(path: Path) -> bool:
    """Return whether a socket can have that path, in a folder of this user alone."""
    return len(os.fsencode(path)) <= _MAX_SOCKET_PATH and is_private(path.parent)


def is_private(folder: Path) -> bool:
    """Return whether only this user can enter a folder."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    is_folder = stat.S_ISDIR(facts.st_mode)
    return is_folder and facts.st_uid == os.getuid() and not facts.st_mode & _OTHERS_MODE


@contextmanager
def hold_daemon_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of `path`; yield whether this process got it."""
    handle = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield any(_try_lock(handle, wait_s=_LOCK_PAUSE_S * bool(i)) for i in range(_LOCK_TRIES))
    finally:
        os.close(handle)


def is_starting(path: Path) -> bool:
    """Return whether a daemon is starting up and does not listen at `path` yet."""
    if path.exists() or not can_listen(path):
        return False
    try:
        handle = os.open(_lock_path(path), os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


def _lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def _try_lock(handle: int, *, wait_s: float = 0) -> bool:
    """Return whether this process could lock a file."""
    time.sleep(wait_s)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def ask_daemon(path: Path, raw: bytes, project: str, *, timeout_s: float) -> HookExit | None:
    """Return how the daemon ends the hook with input `raw`, or None without a valid answer."""
    if not can_listen(path):
        return None
    try:
        facts = path.lstat()
        if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != os.getuid():
            return None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(timeout_s)
            line.connect(str(path))
            line.sendall(json.dumps(project).encode() + b"\n" + raw)
            line.shutdown(socket.SHUT_WR)
            return _parse_answer(receive_all(line, _MAX_ANSWER_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def start_daemon(command: Sequence[str], folder: Path) -> None:
    """Start the daemon as a detached process; failures are ignored."""
    # Loaded here, because a hook that only asks does not need it.
    subprocess = import_module("subprocess")
    silent = subprocess.DEVNULL
    try:
        subprocess.Popen(
            command,
            cwd=folder,
            env=_daemon_environment(),
            stdin=silent,
            stdout=silent,
            stderr=silent,
            start_new_session=True,
            close_fds=True,
        )
    except OSError:
        return


def _daemon_environment() -> dict[str, str]:
    """Return the environment of the daemon, without what a project could have it import."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, **relevant_environment()}


def receive_all(line: socket.socket, max_bytes: int) -> bytes:
    """Return everything that a peer sends.

    Raises:
        ValueError: It exceeds `max_bytes`.
    """
    parts: list[bytes] = []
    size = 0
    while part := line.recv(65_536):
        size += len(part)
        if size > max_bytes:
            raise ValueError("too much data")
        parts.append(part)
    return b"".join(parts)


def _parse_answer(answer: bytes) -> HookExit | None:
    """Return the exit that an answer encodes, or None if it is invalid."""
    # INVARIANT: a truncated or invalid answer counts as none.
    value: Any = json.loads(answer)
    if not isinstance(value, list) or len(value) != 3:
        return None
    status, stdout, stderr = value
    if status not in (0, BLOCKED) or not isinstance(stdout, str) or not isinstance(stderr, str):
        return None
    return HookExit(int(status), stdout, stderr)
