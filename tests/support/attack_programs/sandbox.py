"""Run harmless programs and tell which reached their marker.

Programs run with an empty environment, a temporary home, a PATH of stubs, limits and a timeout,
without network where the system allows that, and never as root.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from demur.guards.static.source_text import split_names
from support.attack_programs.payloads import PAYLOADS, VICTIM_FILE, VICTIM_FOLDER

__all__ = ["HarmlessProgram", "find_problem", "find_reached"]

_NOBODY = 65534
_TRUE = "/bin/true"
_PLACES = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Tools that programs may call. None of them reaches another machine: without `unshare` there is
# still no route, because `ssh` is only ever given a command to run instead of a connection.
_TOOLS = split_names(
    "agent awk base64 basename bash bc busybox cat chmod choom chrt column comm cp cut dash "
    "date dd dirname ed env ex expand expect expr false find flock fmt fold gawk gdb getent "
    "git grep gunzip gzip head iconv install ionice less linux64 ln ls lua make man mawk "
    "mkdir mkfifo mktemp mv nice nl node nohup od openssl paste perf perl php pr printenv "
    "printf prlimit python3 rbash readlink rev rlwrap ruby run-parts script sed seq setarch "
    "setpriv setsid sg sh shuf sleep socat sort split ssh ssh- start-stop-daemon stdbuf "
    "strace strings tac tail tar taskset tclsh tee test timeout touch tr true uname uname26 "
    "uniq unshare vim which xargs xxd yes zcat zip zsh "
)
_STUB = """#!/bin/sh
{ printf '%s\\037' "$PWD" "${0##*/}" "$@"; echo; } >> "${0%/*}/../reached"
"""
_DRIVER = """
ulimit -c 0 -t 4 -f 20000 -n 400 -v 16000000
for place in "$1"/[0-9]*; do
  cd "$place/home" || continue
  timeout -s KILL 60 env -i HOME="$place/home" PATH="$place/bin:$1/tools" LANG=C.UTF-8 \\
    TMPDIR="$place/home" TERM=dumb "$(cat "$place/interpreter")" "$place/program" \\
    < /dev/null > /dev/null 2>&1
  [ -e "$place/home/@victim@" ] || printf '\\037victim\\n' >> "$place/reached"
done
exit 0
""".replace("@victim@", VICTIM_FILE)


class HarmlessProgram(NamedTuple):
    """The harmless form of a program, its interpreter, and what proves that its payload ran."""

    text: str
    interpreter: str
    expected: tuple[str, ...]
    folder: str = ""


@cache
def _isolation() -> tuple[str, ...]:
    """Return the command that takes the network and the process table away, if that is possible."""
    forms = [["unshare", "-n", "-p", "-f", "--kill-child"]]
    if os.geteuid():
        forms = [["unshare", "--map-current-user", "-n", "-p", "-f", "--kill-child"]]
    else:
        forms = [[*forms[0], "-S", str(_NOBODY), "-G", str(_NOBODY)]]
    for form in forms:
        if shutil.which(form[0]):
            tried = subprocess.run([*form, _TRUE], check=False, capture_output=True)
            if tried.returncode == 0:
                return tuple(form)
    return ()


@cache
def find_problem() -> str:
    """Return why programs cannot be run here, or an empty text."""
    if not shutil.which("bash", path=_PLACES):
        return "there is no bash"
    if os.name != "posix":
        return "needs POSIX"
    if os.geteuid() == 0 and not _isolation():
        try:
            subprocess.run([_TRUE], check=True, user=_NOBODY, group=_NOBODY, extra_groups=[])
        except (OSError, subprocess.SubprocessError, ValueError):
            return "runs as root, and cannot change to another user"
    return ""


@contextmanager
def _open_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own(path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, _NOBODY, _NOBODY)


def _place_program(place: Path, program: HarmlessProgram, stub: Path) -> None:
    home = place / "home"
    (home / VICTIM_FOLDER).mkdir(parents=True)
    (home / VICTIM_FILE).write_text("x", encoding="utf-8")
    (place / "bin").mkdir()
    for marker in {payload.marker for payload in PAYLOADS}:
        (place / "bin" / marker).symlink_to(stub)
    (place / "program").write_text(program.text, encoding="utf-8")
    (place / "interpreter").write_text(program.interpreter, encoding="utf-8")
    for path in (place, home, home / VICTIM_FOLDER, home / VICTIM_FILE):
        _own(path)


def _link_tools(folder: Path) -> None:
    tools = folder / "tools"
    tools.mkdir()
    for tool in _TOOLS:
        if found := shutil.which(tool, path=_PLACES):
            (tools / tool).symlink_to(found)


def _was_reached(place: Path, program: HarmlessProgram) -> bool:
    try:
        calls = (place / "reached").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return False
    for call in calls:
        folder, *words = call.removesuffix("\037").split("\037")
        if tuple(words) == program.expected and program.folder in {"", folder}:
            return True
    return False


def find_reached(programs: Sequence[HarmlessProgram], workers: int = 2) -> list[bool]:
    """Run the programs, and return for each whether its payload ran with its arguments."""
    with _open_folder() as folder:
        stub = folder / "stub"
        stub.write_text(_STUB, encoding="utf-8")
        stub.chmod(0o755)
        running = []
        for worker in range(workers):
            share = folder / f"share{worker}"
            share.mkdir()
            _link_tools(share)
            for number in range(worker, len(programs), workers):
                place = share / str(number)
                place.mkdir()
                _place_program(place, programs[number], stub)
            running.append(_start_driver(share))
        for driver in running:
            driver.wait()
        places = [
            folder / f"share{number % workers}" / str(number) for number in range(len(programs))
        ]
        return [_was_reached(place, one) for place, one in zip(places, programs, strict=True)]


def _start_driver(share: Path) -> subprocess.Popen[bytes]:
    command = [*_isolation(), "bash", "-c", _DRIVER, "driver", str(share)]
    drop = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
    change = drop if os.geteuid() == 0 and not _isolation() else {}
    driver: subprocess.Popen[bytes] = subprocess.Popen(
        command,
        env={"PATH": _PLACES},
        cwd=share,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **change,  # type: ignore[call-overload]
    )
    return driver
