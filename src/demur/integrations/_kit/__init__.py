"""Code that the adapters share. Private: import from `demur.integrations.<framework>`."""

from collections.abc import Callable
from typing import Any

from demur.enforce.context import CallContext
from demur.errors import InputTypeError, MissingExtraError

# A call context, or a function from the framework's own context to one.
ContextSource = CallContext | Callable[[Any], CallContext]


def missing_extra(extra: str, package: str | None = None) -> MissingExtraError:
    """Return the error that names the extra to install, and the package if its name differs."""
    return MissingExtraError(
        f"this adapter needs the `{package or extra}` package", help=f"pip install 'demur[{extra}]'"
    )


def check_context(source: Any) -> ContextSource | None:
    """Return the option `context`.

    Raises:
        InputTypeError: It is neither a call context nor a function.
    """
    if source is None or isinstance(source, CallContext) or callable(source):
        return source
    raise InputTypeError.wrong_type("context", "a `CallContext` or a function", source)


def resolve_context(
    source: ContextSource | None,
    host: Any,
    framework: str,
    run: str | None = None,
    call_id: str | None = None,
) -> CallContext:
    """Return the call context for the framework's context `host`; fill in what it leaves open.

    Raises:
        InputTypeError: The host's function returned something else.
    """
    if source is None:
        return CallContext(framework, run, call_id)
    given = source if isinstance(source, CallContext) else source(host)
    if not isinstance(given, CallContext):
        kind = type(given).__name__
        raise InputTypeError(f"`context` must return a `CallContext`, not `{kind}`")
    return given._replace(
        framework=given.framework or framework,
        run=given.run or run,
        call_id=given.call_id if call_id is None else call_id,
    )
