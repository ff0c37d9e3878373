"""A command as the thing under test: the prompt on standard input, the answer on standard output.

One process a prompt, or, with `lines`, processes that live on and answer a line of JSON
(`{"id", "prompt"}`) with a line of JSON (`{"text"}` or `{"error"}`).
"""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from demur.errors import one_line
from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetError
from demur.evals.targets.chat_reply import ReplyError
from demur.evals.targets.timing import ms_since

__all__ = ["CommandOptions", "CommandTarget"]

MAX_OUTPUT_BYTES = 16_000_000
_MAX_SHOWN_OUTPUT = 160


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a command is run."""

    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    lines: bool = False


class CommandTarget:
    """A command that answers prompts; it runs without a shell."""

    def __init__(self, command: str, options: CommandOptions | None = None) -> None:
        self._options = CommandOptions() if options is None else options
        self._command = command
        self._arguments = _split_command(command)
        self._idle: list[Process] = []

    @property
    def name(self) -> str:
        """The program's name."""
        return os.path.basename(self._arguments[0])  # noqa: PTH119 - a word, not a path that exists

    @property
    def settings(self) -> Mapping[str, Any]:
        """The command, and whether it exchanges lines."""
        return {"kind": "command", "command": self._command, "lines": self._options.lines}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return what the command prints."""
        began = time.perf_counter()
        ask = self._ask_line if self._options.lines else self._run_once
        try:
            text = await ask(row)
        except ReplyError as error:
            return error_answer(row.id, error.kind, error.problem, ms=ms_since(began))
        return TargetAnswer(row_id=row.id, text=text, ms=ms_since(began))

    async def close(self) -> None:
        """Kill the idle processes."""
        idle, self._idle = self._idle, []
        for process in idle:
            await _kill_process(process)

    async def _start_process(self, stderr: int | None) -> Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
                limit=MAX_OUTPUT_BYTES,
                # Its own process group: its children end with it, and Ctrl-C reaches only demur.
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            problem = f"cannot run `{self._arguments[0]}`: {str(error.strerror or error).lower()}"
            raise ReplyError("target", problem) from error

    async def _run_once(self, row: EvalRow) -> str:
        process = await self._start_process(PIPE)
        limit = self._options.timeout_s
        try:
            async with asyncio.timeout(limit):
                out, err = await process.communicate(row.prompt.encode(errors="replace"))
        except TimeoutError:
            raise ReplyError("timeout", f"no answer within {limit:g} s") from None
        finally:
            if process.returncode is None:
                await _kill_process(process)
        if process.returncode != 0:
            said = " ".join(err[-4 * _MAX_SHOWN_OUTPUT :].decode("utf-8", "replace").split())[
                -_MAX_SHOWN_OUTPUT:
            ]
            raise ReplyError("target", f"exit status {process.returncode}: {said}".rstrip(": "))
        return _decode_output(out).removesuffix("\n")

    async def _ask_line(self, row: EvalRow) -> str:
        process = self._idle.pop() if self._idle else await self._start_process(None)
        limit = self._options.timeout_s
        whole = False
        try:
            async with asyncio.timeout(limit):
                line = await _exchange_line(process, {"id": row.id, "prompt": row.prompt})
            whole = True
        except TimeoutError:
            raise ReplyError("timeout", f"no answer within {limit:g} s") from None
        finally:
            if whole:
                self._idle.append(process)
            else:
                await _kill_process(process)
        return _parse_reply_line(line)


async def _exchange_line(process: Process, request: Mapping[str, str]) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
    except ValueError:
        raise ReplyError("protocol", f"a line of more than {MAX_OUTPUT_BYTES} bytes") from None
    except OSError:
        line = b""
    if not line.endswith(b"\n"):
        raise ReplyError("target", "the process ended before it answered")
    return line


def _parse_reply_line(line: bytes) -> str:
    try:
        said = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        said = None
    if isinstance(said, dict) and isinstance(said.get("error"), str):
        raise ReplyError("target", said["error"])
    if isinstance(said, dict) and isinstance(said.get("text"), str):
        return str(said["text"])
    start = one_line(line[:_MAX_SHOWN_OUTPUT].decode("utf-8", "replace").strip())
    raise ReplyError("protocol", f"not a JSON object with `text` or `error`: {start}")


def _decode_output(out: bytes) -> str:
    try:
        return out.decode()
    except UnicodeDecodeError as error:
        raise ReplyError(
            "protocol", f"the answer is not UTF-8, from byte {error.start} on"
        ) from None


async def _kill_process(process: Process) -> None:
    """Kill a process and its children, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


def _split_command(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise TargetError(f"invalid command: {error}".lower(), where=command) from None
    if not words:
        raise TargetError("the command is empty", help="name one like `command:./answer.sh`")
    return words
