"""The test server that demur ships as the thing under test: no network, no key.

It runs as a process of its own, is started with the first row, and ends with the run, also
with one that is killed. The rows' labels go along, so that its personas know what to do.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from demur.errors import one_line
from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.suite_row import EvalRow
from demur.evals.targets.openai_compatible import OpenAITarget, OpenAIOptions

__all__ = ["LocalServerTarget", "LocalServerOptions"]

# Named as a string: `demur.testing` is a layer above evals.
_SERVER_MODULE = "demur.testing.model_server"
_READY_PREFIX = "listening on "
_START_TIMEOUT_S = 30.0


class LocalServerOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the test server; `model` can name a fault to simulate."""

    persona: Literal["balanced", "over-refusing", "under-refusing", "echo"] = "balanced"
    latency_ms: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    model: str = ""
    system: str = ""
    stream: bool = False
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    retries: Annotated[int, msgspec.Meta(ge=0, le=20)] = 4
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None


class LocalServerTarget:
    """A persona of demur's test server, which runs as a process of its own.

    The server starts with the first row and ends with the run, even if the run is killed. Row
    labels are sent along, so that personas know how to behave.
    """

    def __init__(self, options: LocalServerOptions | None = None) -> None:
        self._options = LocalServerOptions() if options is None else options
        self._process: Process | None = None
        self._target: OpenAITarget | None = None
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        """The persona's name."""
        return f"testing-{self._options.persona}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The persona and the request options."""
        names = ("persona", "model", "system", "stream")
        return {"kind": "testing-server", **{n: getattr(self._options, n) for n in names}}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the persona's answer."""
        async with self._starting:
            if self._target is None:
                url = await self._start_server()
                if not url.startswith("http"):
                    return error_answer(row.id, "target", f"the test server did not start: {url}")
                self._target = self._open_endpoint(url)
        return await self._target.answer(row)

    async def close(self) -> None:
        """End the server."""
        if self._target is not None:
            await self._target.close()
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()

    async def _start_server(self) -> str:
        """Start the process; return its address, or its output if it failed."""
        words = ("--persona", self._options.persona, "--latency-ms", str(self._options.latency_ms))
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _SERVER_MODULE, "--with-stdin", *words),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=sys.platform != "win32",
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_TIMEOUT_S):
            line = (await self._process.stdout.readline()).decode(errors="replace")
        return one_line(line.strip()).removeprefix(_READY_PREFIX)

    def _open_endpoint(self, url: str) -> OpenAITarget:
        names = ("model", "system", "stream", "timeout_s", "retries", "rate")
        options = OpenAIOptions(**{name: getattr(self._options, name) for name in names})
        return OpenAITarget(url, options, metadata=lambda row: {"label": row.label})
