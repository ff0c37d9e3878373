"""The context of a hook: run, seal, and the enforcer's checks as steps of a generator.

LangChain has every hook twice, sync and async. The steps are one generator, which
`drive_hook` or `adrive_hook` runs. A client that may send commands to a graph can write notes
into its state; a seal shows that the middleware wrote a note for this thread.
"""

import hashlib
from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from demur.enforce.approval import GrantFor, acollect_grants, collect_grants
from demur.enforce.context import CallContext
from demur.enforce.enforcer import Enforcer
from demur.enforce.result import CheckResult
from demur.errors import InputError
from demur.gate.clock import system_entropy

_FRAMEWORK = "langchain"
_Result = TypeVar("_Result")

# Maps the runtime of a hook to a call context; demur fills in framework, run and call.
ContextForRuntime = Callable[[Any], CallContext]


class EnforcerCheck(NamedTuple):
    """A check to run: the enforcer's method and its arguments."""

    check_name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = {}


class GrantLookup(NamedTuple):
    """A lookup of the host's grants for a call that a person approved."""

    grant_for: GrantFor | None
    result: CheckResult
    answer: Any


# A check gets back a check result, a grant lookup a tuple of grants.
HookSteps = Generator[EnforcerCheck | GrantLookup, Any, _Result]


def drive_hook(steps: HookSteps[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook and return their result."""
    try:
        asked = next(steps)
        while True:
            answer: Any
            if isinstance(asked, EnforcerCheck):
                answer = getattr(enforcer, asked.check_name)(*asked.arguments, **asked.keywords)
            else:
                answer = collect_grants(*asked)
            asked = steps.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


async def adrive_hook(steps: HookSteps[_Result], enforcer: Enforcer) -> _Result:
    """Run the steps of a hook without blocking the event loop."""
    try:
        asked = next(steps)
        while True:
            answer: Any
            if isinstance(asked, EnforcerCheck):
                answer = await getattr(enforcer, f"a{asked.check_name}")(
                    *asked.arguments, **asked.keywords
                )
            else:
                answer = await acollect_grants(*asked)
            asked = steps.send(answer)
    except StopIteration as done:
        result: _Result = done.value
        return result


def build_context(runtime: Any, run: str | None, given: ContextForRuntime | None) -> CallContext:
    """Return the call context of a hook; its run is the thread, the run, or else `run`."""
    named = find_run_id(runtime) or run
    if given is None:
        return CallContext(_FRAMEWORK, named)
    asks = given(runtime)
    return asks._replace(framework=_FRAMEWORK, run=asks.run or named)


def find_run_id(runtime: Any) -> str | None:
    """Return the id of the runtime's thread or run, or None."""
    info = getattr(runtime, "execution_info", None)
    return getattr(info, "thread_id", None) or getattr(info, "run_id", None)


_MIN_KEY_LENGTH = 16
_DIGEST_SIZE = 32

# Maps a text to its seal in one thread.
Seal = Callable[[str], str]


def derive_key(given: bytes | None) -> bytes:
    """Return the sealing key: derived from the given secret, or random for this process.

    Raises:
        InputError: The secret is too short.
    """
    if given is None:
        return _process_key()
    if len(given) < _MIN_KEY_LENGTH:
        help_text = f"{_MIN_KEY_LENGTH} random bytes or more"
        raise InputError(f"a key of {len(given)} bytes is too short", where="key", help=help_text)
    return hashlib.blake2b(given, digest_size=_DIGEST_SIZE).digest()


def make_seal(key: bytes, thread: str | None) -> Seal:
    """Return the function that seals texts for a thread."""

    def seal(text: str) -> str:
        sealed = f"{thread!r} {text}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(sealed, key=key, digest_size=_DIGEST_SIZE).hexdigest()

    return seal


@cache
def _process_key() -> bytes:
    # One key for the process: agents are often created for each request.
    return system_entropy(_DIGEST_SIZE)
