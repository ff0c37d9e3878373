"""Create a virtual environment with locked packages and demur itself, and show the progress.

`python3 tools/set_up.py FOLDER FILE...`: files are in `requirements/`; a .txt is locked with
hashes, a .in is not. Without a locked file, pip also installs what demur needs. This file needs
the standard library alone, and an older Python can read it far enough to be told so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

MIN_VERSION = (3, 11)
_REQUIREMENT = re.compile(r"(?m)^[A-Za-z0-9]")
# pip collects from an index, and processes a file on this machine.
_COLLECTING = re.compile(r"(?:Collecting|Processing) (?:\S*/)?([\w.]+(?:-(?!\d)[\w.]+)*)")
_PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off")
_MAX_ERROR_LINES = 20
_MIB = 1024 * 1024


def main(words: list[str]) -> int:
    """Set up the environment that the command line names; return the exit status."""
    folder, files = Path(words[0]), [Path("requirements", name) for name in words[1:]]
    if sys.version_info < MIN_VERSION:
        found = sys.version.split()[0]
        return fail(f"demur needs Python 3.11 or newer; python3 is {found}")
    started = time.monotonic()
    say(f"== setting up {folder}")
    shutil.rmtree(str(folder), ignore_errors=True)
    if subprocess.call([sys.executable, "-m", "venv", str(folder)]):
        return fail("python3 cannot create environments; on Debian: apt install python3-venv")
    python = str(folder / "bin" / "python")
    total = sum(len(_REQUIREMENT.findall(file.read_text("utf-8"))) for file in files)
    count = 0
    for file in files:
        hashes = ["--require-hashes"] if file.suffix == ".txt" else []
        status, count = install([python, *_PIP, *hashes, "--requirement", str(file)], count, total)
        if status:
            return status
    say("  demur itself and its models")
    bare = ["--no-deps"] if any(file.suffix == ".txt" for file in files) else []
    own = ["--no-build-isolation", "--editable", ".", "--editable", "./models"]
    status, _ = install([python, *_PIP, *bare, *own], 0, 0)
    if status:
        return status
    size = sum(path.lstat().st_size for path in folder.rglob("*")) // _MIB
    seconds = time.monotonic() - started
    say(f"== {folder} is ready: {count} packages, {size} MB, {seconds:.0f} s")
    return 0


def install(command: list[str], count: int, total: int) -> tuple[int, int]:
    """Run pip, print a line for each package, and return its status and the new count."""
    last: deque[str] = deque(maxlen=_MAX_ERROR_LINES)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ran:
        assert ran.stdout is not None
        for line in ran.stdout:
            last.append(line)
            collecting = _COLLECTING.match(line)
            if collecting and total:
                count += 1
                say(f"  {count} of {total}: {collecting[1]}")
            elif line.startswith("Installing collected packages") and total:
                say("  installing")
    if ran.returncode:
        say("".join(last).rstrip())
    return ran.returncode, count


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def fail(problem: str) -> int:
    """Print a problem, and return the status of an error."""
    print(f"error: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
