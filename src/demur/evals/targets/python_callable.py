"""A Python function as the thing under test: of a prompt, plain or to be awaited."""

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Annotated, Any

import msgspec

from demur.evals.answer import TargetAnswer, limit_size, error_answer
from demur.evals.suite_row import EvalRow
from demur.evals.target import TargetError
from demur.evals.targets.chat_reply import ChatCompletion, ReplyError, parse_value
from demur.evals.targets.timing import ms_since

__all__ = ["PythonTarget", "PythonOptions", "find_function"]


class PythonOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a function is called; synchronous calls run in at most `threads` threads."""

    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0
    threads: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 32


class PythonTarget:
    """A function that takes a prompt and returns a text, its pieces, or a chat completion.

    An exception is the row's error. A synchronous function that hangs is left in its thread.
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
            return error_answer(
                row.id, "timeout", f"no answer within {limit:g} s", ms=ms_since(began)
            )
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
        said = await loop.run_in_executor(self._threads, _call_in_thread, self._function, prompt)
        return await said if inspect.isawaitable(said) else said


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
    said = function(prompt)
    pieces = isinstance(said, Iterable) and not isinstance(said, str | bytes | Mapping)
    return list(said) if pieces and not inspect.isawaitable(said) else said


def _parse_result(said: Any) -> ChatCompletion:
    if isinstance(said, str):
        return ChatCompletion(said, None)
    if isinstance(said, dict):
        return parse_value(said)
    if isinstance(said, list) and all(isinstance(piece, str) for piece in said):
        return ChatCompletion("".join(said), None)
    raise ReplyError("target", f"the function returned `{type(said).__name__}` instead of text")
