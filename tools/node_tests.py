"""Run the tests of Node packages, or say why they cannot run here.

`python3 tools/node_tests.py FOLDER...` installs what the lock file of each package names, and runs
its `npm test`. It uses the Node on the path if that is new enough, or else the one of the npm
package `node`, which it installs into `.node`. This file needs the standard library alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# From this version on, Node runs TypeScript by itself.
MIN_NODE = (22, 18)
NODE_PACKAGE = "node@24.21.0"
NODE_FOLDER = Path(".node")
_QUIETLY = ("--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1")
_UNREACHABLE = re.compile(
    r"npm error code (E[A-Z_]*(?:NOTFOUND|AGAIN|REFUSED|RESET|TIMEDOUT|UNREACH)|E403|E5\d\d)"
)


class SkippedError(Exception):
    """The tests cannot run here; the text names the tool and the reason."""


def main(folders: list[str]) -> int:
    """Test each package; return the exit status, which is 0 if the tests are skipped."""
    try:
        path = find_node()
        for folder in folders:
            install_packages(Path(folder), path)
    except SkippedError as reason:
        print(f"skipped: {' '.join(folders)}: {reason}", flush=True)
        return 0
    failed = [folder for folder in folders if run_tests(folder, path)]
    if failed:
        print(f"failed: {' '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def find_node() -> str:
    """Return a path whose first Node is new enough; install one if need be.

    Raises:
        SkippedError: There is no npm, or it cannot install Node.
    """
    path = os.environ.get("PATH", "")
    if shutil.which("npm") is None:
        raise SkippedError("npm is not installed")
    if read_version(path) >= MIN_NODE:
        return path
    own = os.pathsep.join((str((NODE_FOLDER / "node_modules/.bin").resolve()), path))
    if read_version(own) < MIN_NODE:
        NODE_FOLDER.mkdir(exist_ok=True)
        print(f"== installing {NODE_PACKAGE} into {NODE_FOLDER}", flush=True)
        run_npm(NODE_FOLDER, path, "install", "--no-save", "--prefix", ".", NODE_PACKAGE)
    if (found := read_version(own)) < MIN_NODE:
        wanted, got = (".".join(map(str, one)) for one in (MIN_NODE, found))
        raise SkippedError(f"node {wanted} or newer is needed, and npm installed {got or 'none'}")
    return own


def read_version(path: str) -> tuple[int, ...]:
    """Return the version of the first Node on a path, empty if there is none that runs."""
    node = shutil.which("node", path=path)
    if node is None:
        return ()
    ran = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return tuple(map(int, re.findall(r"\d+", ran.stdout)))


def install_packages(folder: Path, path: str) -> None:
    """Install what the lock file of a package names, unless that was done before.

    Raises:
        SkippedError: The registry cannot be reached.
    """
    installed, lock = folder / "node_modules/.package-lock.json", folder / "package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        run_npm(folder, path, "ci", "--ignore-scripts")


def run_npm(folder: Path, path: str, *words: str) -> None:
    """Run npm in a folder.

    Raises:
        SkippedError: The registry cannot be reached.
        SystemExit: npm failed for another reason.
    """
    command = [shutil.which("npm") or "npm", *words, *_QUIETLY]
    environment = {**os.environ, "PATH": path}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode == 0:
        return
    if unreachable := _UNREACHABLE.search(ran.stderr):
        raise SkippedError(f"npm cannot reach its registry ({unreachable[1]})")
    raise SystemExit(f"error: npm {words[0]} failed in {folder}\n{ran.stderr.strip()}")


def run_tests(folder: str, path: str) -> int:
    """Run the tests of a package; return the exit status."""
    print(f"== {folder}", flush=True)
    environment = {**os.environ, "PATH": path}
    npm = shutil.which("npm") or "npm"
    return subprocess.call([npm, "test", "--silent"], cwd=folder, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
