"""Targets on this machine: a command, a Python function, or a file of recorded answers.

A command gets the prompt on standard input, one process a prompt; with `lines`, processes live
on and exchange JSON lines (`{"id", "prompt"}` for `{"text"}` or `{"error"}`).
"""

import asyncio
import contextlib
import hashlib
import inspect
import os
import shlex
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from demur.errors import error_reason, one_line
from demur.evals.chat_reply import ChatCompletion, ReplyError, parse_value
from demur.evals.suite_row import EvalRow
from demur.evals.target import (
    TargetAnswer,
    TargetError,
    decode_answer,
    error_answer,
    limit_size,
    ms_since,
)

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
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise TargetError(f"invalid command: {error}".lower(), where=command) from None
        if not words:
            raise TargetError("the command is empty", help="name one like `command:./answer.sh`")
        self._arguments = words
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
            problem = f"cannot run `{self._arguments[0]}`: {error_reason(error)}"
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
            lines = err[-4 * _MAX_SHOWN_OUTPUT :].decode("utf-8", "replace").split()
            output = " ".join(lines)[-_MAX_SHOWN_OUTPUT:]
            raise ReplyError("target", f"exit status {process.returncode}: {output}".rstrip(": "))
        try:
            return out.decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            problem = f"the answer is not UTF-8, from byte {error.start} on"
            raise ReplyError("protocol", problem) from None

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
        reply = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        reply = None
    if isinstance(reply, dict) and isinstance(reply.get("error"), str):
        raise ReplyError("target", reply["error"])
    if isinstance(reply, dict) and isinstance(reply.get("text"), str):
        return str(reply["text"])
    start = one_line(line[:_MAX_SHOWN_OUTPUT].decode("utf-8", "replace").strip())
    raise ReplyError("protocol", f"not a JSON object with `text` or `error`: {start}")


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


class PythonOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a function is called; synchronous calls run in at most `threads` threads."""

    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 32


class PythonTarget:
    """A function that takes a prompt and returns a text, its pieces, or a chat completion.

    An exception is the row's error. A synchronous function that hangs stays in its thread.
    """

    def __init__(
        self,
        function: Callable[[str], Any],
        options: PythonOptions | None = None,
        *,
        name: str = "",
    ) -> None:
        self._function = function
        self._options = PythonOptions() if options is None else options
        self._name = name or _function_place(function)
        self._threads: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        """The module and name of the function."""
        return self._name

    @property
    def settings(self) -> Mapping[str, Any]:
        """The function."""
        return {"kind": "python", "function": self._name}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the function's result as an answer."""
        began = time.perf_counter()
        limit = self._options.timeout_s
        try:
            async with asyncio.timeout(limit):
                parsed = _parse_result(await self._call_function(row.prompt))
        except TimeoutError:
            problem = f"no answer within {limit:g} s"
            return error_answer(row.id, "timeout", problem, ms=ms_since(began))
        except ReplyError as error:
            return error_answer(row.id, error.kind, error.problem, ms=ms_since(began))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any exception is this row's error
            problem = f"{type(error).__name__}: {error}"
            return error_answer(row.id, "target", problem, ms=ms_since(began))
        return TargetAnswer(
            row_id=row.id,
            text=parsed.text,
            native=limit_size(parsed.native),
            ms=ms_since(began),
            prompt_tokens=parsed.prompt_tokens,
            completion_tokens=parsed.completion_tokens,
        )

    async def close(self) -> None:
        """End the threads, without waiting for one that hangs."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call_function(self, prompt: str) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(prompt)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._options.threads, "demur-eval")
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._threads, _call_in_thread, self._function, prompt)
        return await result if inspect.isawaitable(result) else result


def find_function(place: str) -> Callable[[str], Any]:
    """Return the function at `module:function`; the working directory is searched too.

    Raises:
        TargetError: It cannot be found.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise TargetError(f"`{place}` names no function", help="write `module:function`")
    here = os.getcwd()  # noqa: PTH109 - the entry of `sys.path` is a text
    sys.path.insert(0, here)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        problem = f"cannot load `{place}`: {type(error).__name__}: {error}"
        raise TargetError(problem, help="check that its module is on the path") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise TargetError(f"`{place}` is not a function")
    return found  # type: ignore[no-any-return] # its results are checked


def _function_place(function: Callable[[str], Any]) -> str:
    module = getattr(function, "__module__", None) or "builtins"
    return f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"


def _call_in_thread(function: Callable[[str], Any], prompt: str) -> Any:
    """Call a function; if it returns an iterator, consume it in this thread too."""
    result = function(prompt)
    pieces = isinstance(result, Iterable) and not isinstance(result, str | bytes | Mapping)
    return list(result) if pieces and not inspect.isawaitable(result) else result


def _parse_result(result: Any) -> ChatCompletion:
    if isinstance(result, str):
        return ChatCompletion(result, None)
    if isinstance(result, dict):
        return parse_value(result)
    if isinstance(result, list) and all(isinstance(piece, str) for piece in result):
        return ChatCompletion("".join(result), None)
    raise ReplyError("target", f"the function returned `{type(result).__name__}` instead of text")


_ID_FIELDS = ("row_id", "id")
_TEXT_FIELDS = ("text", "response", "answer", "completion", "output")


class RecordedOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a line; a path like `choices.0.message.content` reaches nested values.

    By default, ids are read from `row_id` or `id`, and answers from `text`, `response`, `answer`,
    `completion` or `output`.
    """

    id_field: str = ""
    prompt_field: str = "prompt"
    text_field: str = ""
    native_field: str = ""


class RecordedTarget:
    """A JSON lines file of answers, found by row id or else by prompt.

    Only offsets are in memory. A row without a recorded answer gets an error. The answers of a
    run of demur can be used directly.
    """

    def __init__(self, path: Path | str, options: RecordedOptions | None = None) -> None:
        self._path = Path(path)
        self._options = RecordedOptions() if options is None else options
        self._ids = (self._options.id_field,) if self._options.id_field else _ID_FIELDS
        self._texts = (self._options.text_field,) if self._options.text_field else _TEXT_FIELDS
        self._by_id: dict[str, int] = {}
        self._by_prompt: dict[bytes, int] = {}
        self._bad = 0
        try:
            self._file: BinaryIO = self._path.open("rb")
        except (OSError, ValueError) as error:
            problem = f"cannot read the answers: {error_reason(error)}"
            raise TargetError(problem, where=str(path)) from error
        self._digest = self._index_file()

    @property
    def name(self) -> str:
        """The file's name."""
        return self._path.stem

    @property
    def settings(self) -> Mapping[str, Any]:
        """The file by its digest, and the fields that are read."""
        fields = msgspec.structs.asdict(self._options)
        return {"kind": "recorded", "file": self._path.name, "digest": self._digest, **fields}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the recorded answer to a row."""
        place = self._by_id.get(row.id)
        if place is None:
            place = self._by_prompt.get(_prompt_key(row.prompt))
        if place is None:
            bad = f"; {self._bad} of its lines could not be read" if self._bad else ""
            problem = f"{self._path.name} holds no answer to `{row.id}`{bad}"
            return error_answer(row.id, "target", problem)
        self._file.seek(place)
        return self._read_answer(row, self._file.readline())

    async def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _index_file(self) -> str:
        """Index the lines by id and prompt; return the digest of the file."""
        total = hashlib.sha256()
        place = 0
        for line in self._file:
            total.update(line)
            here, place = place, place + len(line)
            if not line.strip():
                continue
            value = _decode_line(line)
            if value is None:
                self._bad += 1
                continue
            row_id = self._first_value(value, self._ids)
            prompt = _value_at(value, self._options.prompt_field)
            # The last line for a row counts.
            if isinstance(row_id, str | int):
                self._by_id[str(row_id)] = here
            if isinstance(prompt, str):
                self._by_prompt[_prompt_key(prompt)] = here
        return f"sha256:{total.hexdigest()}"

    def _read_answer(self, row: EvalRow, line: bytes) -> TargetAnswer:
        value = _decode_line(line)
        assert value is not None, "the file was changed while it was read"
        if not self._options.text_field and ("error_kind" in value or "row_id" in value):
            try:
                return msgspec.structs.replace(decode_answer(line), row_id=row.id)
            except msgspec.MsgspecError:
                """Another format that happens to have a field of that name."""
        text = self._first_value(value, self._texts)
        if not isinstance(text, str):
            names = ", ".join(f"`{name}`" for name in self._texts)
            return error_answer(row.id, "target", f"the recorded line has no text under {names}")
        field = self._options.native_field
        native = _value_at(value, field) if field else None
        return TargetAnswer(row_id=row.id, text=text, native=limit_size(native))

    @staticmethod
    def _first_value(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
        found = (_value_at(value, name) for name in names)
        return next((one for one in found if one is not None), None)


def _decode_line(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _value_at(value: Any, name: str) -> Any:
    """Return the value at a path in a JSON value, or None."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _prompt_key(prompt: str) -> bytes:
    return hashlib.blake2b(prompt.strip().encode(errors="replace"), digest_size=16).digest()
