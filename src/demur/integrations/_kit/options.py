"""Settings that all adapters take, and what they make of them."""

from collections.abc import Awaitable, Callable, Collection
from inspect import isawaitable
from typing import Any, TypedDict, Unpack

from demur.codes.vocabulary import Surface
from demur.enforce.changes import OnFinding
from demur.enforce.context import CallContext
from demur.enforce.describe import to_json_value
from demur.enforce.enforcer import EnforceMode, Enforcer, Tools
from demur.enforce.result import Approval, CheckResult, GrantFor, check_approval
from demur.errors import InputError, InputTypeError, MissingExtraError
from demur.gate.gate import Gate
from demur.model.grant import Grant

# A call context, or a function from the framework's own context to one.
ContextSource = CallContext | Callable[[Any], CallContext]


# The authenticated person whose yes counts for a call: a name, or a function of the check result
# and the framework's context that returns one, or None if nobody counts.
Approver = str | Callable[[CheckResult, Any], str | Awaitable[str | None] | None]
# The requester of calls whose context names none, so that a person has somebody to approve for.
_AGENT = {"type": "agent", "id": "agent"}


class AdapterOptions(TypedDict, total=False):
    """The options that all adapters share.

    `on_finding` changes texts with findings of soft codes instead of refusing them: `redact`,
    `mask` or `reask`, by surface and code. With `mode="shadow"` everything is checked and recorded,
    and nothing is refused. `tools` are settings of single tools.
    """

    on_finding: OnFinding | None
    mode: EnforceMode | None
    tools: Tools | None


def adapt_enforcer(
    enforcer: Enforcer | Gate,
    *,
    carried: Collection[Surface],
    approver: Approver | None = None,
    approval: Approval = "message",
    wait_s: float = 300.0,
    **options: Unpack[AdapterOptions],
) -> Enforcer:
    """Return the enforcer of an adapter; `carried` are the surfaces whose texts it can change.

    With the `approval` `wait`, its tool calls wait `wait_s` for people in the queue of the store.

    Raises:
        InputTypeError: It is neither an enforcer nor a gate, or an option has the wrong type.
        InputError: An option cannot be used.
    """
    own = None if approver is None else _AGENT
    adapted = Enforcer.coerce(enforcer, carried=carried, subject=own, **options)
    if check_approval(approval) == "wait":
        adapted = adapted.waiting_for_people(wait_s)
    if approver is None:
        return adapted
    if not isinstance(approver, str) and not callable(approver):
        raise InputTypeError.wrong_type("approver", "a name or a function", approver)
    if adapted.gate is None:
        problem, help_text = "an approval is recorded by a gate", "use `open_enforcer()`"
        raise InputError(problem, where="approver", help=help_text)
    return adapted


def is_changed_fully(result: CheckResult, value: Any) -> bool:
    """Return whether a changed value holds nothing any more that was to be taken out of it.

    `result.apply_changes` reaches texts and JSON, and not what is inside of other objects.
    """
    if result.changes is None:
        return True
    readable = to_json_value(value, opaque=str)
    return result.apply_changes(readable) is readable


def choose_grant_for(
    enforcer: Enforcer, grant_for: GrantFor | None, approver: Approver | None
) -> GrantFor | None:
    """Return how an approved call gets its grants: by `grant_for`, or by the approver's yes.

    Raises:
        InputError: Both are given.
    """
    if approver is None:
        return grant_for
    if grant_for is not None:
        problem = "`approver` and `grant_for` both say who approves"
        raise InputError(problem, where="approver", help="pass one of them")

    def approve(result: CheckResult, host: Any) -> Any:
        person = approver if isinstance(approver, str) else approver(result, host)
        if isawaitable(person):
            return _approve_later(person, result)
        return enforcer.approve(result, person) if person else ()

    async def _approve_later(
        person: Awaitable[str | None], result: CheckResult
    ) -> tuple[Grant, ...]:
        name = await person
        return enforcer.approve(result, name) if name else ()

    return approve


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
