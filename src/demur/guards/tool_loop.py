"""The tool-loop guard: calls that repeat or exceed a budget. Codes: LOOP_DETECTED, BUDGET_EXCEEDED.

Five signs of a loop are looked for at the end of the history: the same call again and again,
almost the same call with the same result, a cycle of calls, failure after failure of one kind
although the arguments vary, and a call that keeps coming back with other calls in between. A
different result is progress: polling a job that moves, turning pages and reading many files all
pass. So do retries that wait: where times are known and the gaps never shrink, more of them are
allowed. As many are if the result says that something is still under way, unless they are known
to follow each other without a pause; and calls that ask for a state may repeat longer still. A call
keeps the marks it is compared by, so a history that grows by one call is judged without reading
the others again.

Limits: results that were not recorded count as unchanged, but only for calls with the very same
arguments; a loop longer than the longest cycle whose calls never come back alike is left to the
budgets; a loop that the agent has left is not reported.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import Annotated, Any

import msgspec
import re2

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.tool_manifest import shorten_name
from demur.model.finding import Action, Finding
from demur.text.fold import fold_text

# Parts that change in every answer: request ids, times, addresses in memory.
_PASSING = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b0x[0-9a-f]+\b"
    r"|(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[t ])?[0-9]{2}:[0-9]{2}:[0-9]{2}"
    r"(?:[.,][0-9]+)?(?:z|[+-][0-9]{2}:?[0-9]{2})?"
)
_VOLATILE = re2.compile(_PASSING)
# In arguments also parts that differ between tries: counters, and ids without a form.
_NOISE = re2.compile(rf"{_PASSING}|\b[0-9a-f]*[0-9][0-9a-f]{{11,}}\b|[0-9]+(?:[.][0-9]+)?")
# In error messages also quoted arguments.
_QUOTED = re2.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[^\s]*[/\\][^\s]*|[^\s]*[0-9][^\s]*|\S+\.\w+")
_MAX_COMPARED = 4000
# A call that asks for a state says so at its beginning.
_STATE_REACH = 200
_MAX_JSON = 100_000
# JSON inside JSON is parsed this deep, and stays a text beyond.
_MAX_JSON_DEPTH = 3
_FAILURE = re2.compile(
    r"^[\"']?(?:error|exception|traceback|fatal|failed|failure|timeout|timed out|denied"
    r"|unauthori[sz]ed|forbidden|not found|no such|no (?:results?|matches|data|records)|cannot"
    r"|could not|unable to|permission denied|access denied|invalid|unknown|[45][0-9]{2}\b)"
    r"|^[a-z.]*(?:error|exception)\b|\"(?:is_?error|error)\" ?: ?(?:true|\"[^\"]|\{)"
    r"|\"(?:ok|success)\" ?: ?false|^(?:\[\]|\{\}|none)$"
)


# Calls that ask how something is doing that runs by itself, or wait for it.
_STATE = re2.compile(
    r"(?:^|[^a-z])(?:status|poll|wait|sleep|progress|pending|(?:bash|task|command|shell)_?output"
    r"|checks|rollout|healthz?|readyz?|is-active|background|squeue|qstat|pgrep"
    r"|check[_-]?(?:run|job)s?|docker ps|ps (?:aux|-ef?)|tail -\w+"
    r"|(?:get|list|describe|read|show|view)[_ -](?:[a-z]+[_ -])?"
    r"(?:jobs?|pods?|runs?|builds?|deployments?|pipelines?|stacks?|workflows?)"
    r"|(?:run|job|pipeline|workflow|build|deployment)s? (?:view|get|show|list|watch))(?:[^a-z]|$)"
    # The file that a command in the background writes to.
    r"|[/\\]tasks[/\\][^\s\"]+[.]output(?:[^a-z]|$)|(?:^|[^a-z])nohup[.]out(?:[^a-z]|$)"
)
# Short results that say that something is still under way.
_MOTION = re2.compile(
    r"(?:^|[^a-z])(?:pending|queued|running|in[_ -]?progress|waiting|starting|creating|provisioning"
    r"|activating|initiali[sz]ing|containercreating|not (?:yet )?(?:ready|finished|complete|done)"
    r"|no (?:new|further) output|still (?:building|working|processing))(?:[^a-z]|$)"
)
_MAX_MOTION = 600


def _check_amount(what: str, value: Any, *, none: bool) -> None:
    if none and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError.wrong_type(what, "a number", value)
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{what} must be a number from 0 up")


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One call: the tool, its arguments, and its result once it has run.

    `at_s` is when it began, in seconds of any clock; `failed` says that it ended in an error,
    where the host knows. A call that has not run yet has no result.
    """

    name: str
    arguments: Any = None
    result: Any = None
    at_s: float | None = None
    tokens: int = 0
    cost: float = 0
    failed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputTypeError.wrong_type("the name of a call", "a string", self.name)
        for field in ("at_s", "tokens", "cost"):
            _check_amount(f"`{field}` of a call", getattr(self, field), none=field == "at_s")

    @cached_property
    def exact_arguments(self) -> str:
        """The arguments as one text, the same for any spelling and order of keys."""
        return _canonical_text(self.arguments)

    @cached_property
    def argument_trigrams(self) -> frozenset[str]:
        """The trigrams of the arguments, without ids and numbers, for measuring similarity."""
        text = _NOISE.sub("#", self.exact_arguments[:_MAX_COMPARED])
        return frozenset(text[i : i + 3] for i in range(max(1, len(text) - 2)))

    @cached_property
    def outcome(self) -> str | None:
        """The result without what changes by itself, or None if there is none yet."""
        if self.result is None:
            return None
        return str(_VOLATILE.sub("#", _canonical_text(self.result)[:_MAX_COMPARED]))

    @cached_property
    def failure_message(self) -> str | None:
        """The outcome of a failed call, without quoted arguments; else None."""
        return str(_QUOTED.sub("#", self.outcome or "")) if self.is_failure else None

    @cached_property
    def is_failure(self) -> bool:
        """Whether the call ended in an error, or found nothing."""
        if self.failed or self.result is None:
            return self.failed
        return bool(_FAILURE.search(_canonical_text(self.result)[:_MAX_COMPARED]))

    @cached_property
    def asks_for_state(self) -> bool:
        """Whether the call asks how something is doing that runs by itself, or waits for it."""
        return bool(
            _STATE.search(f"{_fold_text(self.name)} {self.exact_arguments[:_MAX_COMPARED]}")
        )

    @cached_property
    def shows_motion(self) -> bool:
        """Whether the result says that something is still under way."""
        text = self.outcome or ""
        return len(text) <= _MAX_MOTION and not self.is_failure and bool(_MOTION.search(text))

    def argument_similarity(self, other: "RecordedCall") -> float:
        """Return how alike the arguments are, from 0 to 1; 1 if only ids and numbers differ."""
        shared = len(self.argument_trigrams & other.argument_trigrams)
        return 2 * shared / (len(self.argument_trigrams) + len(other.argument_trigrams))


class CallTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of calls, and when the first and the last of them began."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0
    since_s: float | None = None
    until_s: float | None = None

    def __post_init__(self) -> None:
        for field in ("calls", "tokens", "cost", "since_s", "until_s"):
            _check_amount(f"`{field}`", getattr(self, field), none=field.endswith("_s"))

    def with_call(self, call: RecordedCall) -> "CallTotals":
        """Return the totals with `call` added."""
        times = [at for at in (self.since_s, self.until_s, call.at_s) if at is not None]
        return CallTotals(
            calls=self.calls + 1,
            tokens=self.tokens + call.tokens,
            cost=self.cost + call.cost,
            since_s=min(times, default=None),
            until_s=max(times, default=None),
        )


class CallHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The calls so far, oldest first, and the totals of those before them."""

    calls: tuple[RecordedCall, ...] = ()
    earlier: CallTotals = CallTotals()

    def __post_init__(self) -> None:
        if not all(isinstance(call, RecordedCall) for call in self.calls):
            raise InputError("a history holds calls", help="`RecordedCall(name=...)`")

    def add(self, call: RecordedCall, *, keep: int = 64) -> "CallHistory":
        """Return the history with `call` added: the last `keep` calls, and totals of the rest."""
        calls = (*self.calls, call)
        earlier = self.earlier
        for old in calls[:-keep]:
            earlier = earlier.with_call(old)
        return CallHistory(calls=calls[-keep:], earlier=earlier)


def _canonical_text(value: Any) -> str:
    """Return a value as one text, the same for all spellings of it.

    A text that holds JSON is read as such, so that the order of its keys makes no difference.
    """
    try:
        folded = _fold_value(value, _MAX_JSON_DEPTH)
        is_text = isinstance(folded, str)
        return folded if is_text else json.dumps(folded, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("a call has arguments or a result that are no JSON") from error


def _fold_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        held = _json_in(value) if depth else None
        try:
            return _fold_text(value) if held is None else _fold_value(held, depth - 1)
        except RecursionError:
            # Nested too deep: treat it as plain text.
            return _fold_text(value)
    if isinstance(value, Mapping):
        return {
            _fold_text(key) if isinstance(key, str) else key: _fold_value(item, depth)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_fold_value(item, depth) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InputTypeError.wrong_type("a value", "JSON", value)


def _fold_text(text: str) -> str:
    """Return a text without case, look-alikes, invisible characters and extra white space."""
    return fold_text(text).data.decode("latin-1").strip()


def _json_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or list that a text holds as JSON, or None."""
    inside = text.strip()
    if not 1 < len(inside) <= _MAX_JSON or inside[0] + inside[-1] not in {"{}", "[]"}:
        return None
    try:
        return json.loads(inside)  # type: ignore[no-any-return] # it begins as an object or a list
    except (ValueError, RecursionError):
        return None


SURFACE = Surface.TOOL_LOOP
CODES = (ReasonCode.BUDGET_EXCEEDED, ReasonCode.LOOP_DETECTED)

# Shorter results (`ok`, `written`) are often alike although nothing is wrong.
_MIN_TELLING_RESULT = 80


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How much repetition makes a loop, and the budgets.

    `repeats` calls (or rounds of a cycle) in a row make a loop, `patient_repeats` if each waits
    at least `pause_s` seconds and either no shorter than the one before, or for something that
    its result calls unfinished (also where no times are known), `polling_repeats` if the call asks
    for the state of something that runs. `near` is how alike arguments are that count as the
    same if the result is the same. `no_progress` failures in a row are too many, whatever the
    arguments; `recurrences` times the same call with the same telling result, with other calls in
    between. `ignore` names tools whose repetition means nothing, such as one that scrolls.
    """

    repeats: int = 3
    patient_repeats: int = 10
    polling_repeats: int = 20
    pause_s: float = 1
    near: float = 0.95
    longest_cycle: int = 16
    no_progress: int = 8
    recurrences: int = 12
    window: int = 64
    ignore: tuple[str, ...] = ()
    max_calls: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    action: Action = Action.BLOCK

    def __post_init__(self) -> None:
        counts = (self.repeats, self.patient_repeats, self.polling_repeats)
        if min(*counts, self.no_progress, self.recurrences) < 2:
            raise InputError("a loop is at least two calls", help="raise `repeats`")
        if self.longest_cycle < 1 or not 0 < self.near <= 1:
            raise InputError("`longest_cycle` starts at 1, and `near` lies between 0 and 1")
        if self.window < self.longest_cycle * self.repeats or self.window < self.no_progress:
            problem = f"a window of {self.window} calls is too short"
            raise InputError(problem, help="it must hold `repeats` rounds of the longest cycle")


def check(event: CallHistory, config: LoopConfig) -> Iterator[Finding]:
    """Yield the loop that the history ends in, if any, and each budget that is used up."""
    if not isinstance(event, CallHistory):
        raise InputTypeError.wrong_type("the event", "a `CallHistory`", event)
    # INVARIANT: calls before the window make no loop.
    recent = event.calls[-config.window :]
    first = len(event.calls) - len(recent)
    loop = (
        _find_cycle(recent, first, config)
        or _find_stall(recent, first, config)
        or _find_recurrence(recent, first, config)
    )
    if loop is not None:
        yield loop
    yield from _check_budgets(event, config)


def _find_cycle(calls: tuple[RecordedCall, ...], first: int, config: LoopConfig) -> Finding | None:
    """Return the shortest cycle that the calls end in."""
    for length in range(1, config.longest_cycle + 1):
        matching = 0
        for later in range(len(calls) - 1, length - 1, -1):
            if not _is_repeat(calls[later - length], calls[later], config):
                break
            matching += 1
        rounds = 1 + matching // length
        needed = config.repeats
        part = calls[-rounds * length :]
        if rounds >= needed and _may_wait(part, length, config.pause_s):
            needed = max(needed, config.patient_repeats)
        if rounds >= needed and any(call.asks_for_state for call in part[:length]):
            needed = max(needed, config.polling_repeats)
        if rounds >= needed:
            return _loop_finding(calls, first, length, rounds, config)
    return None


def _is_repeat(before: RecordedCall, after: RecordedCall, config: LoopConfig) -> bool:
    """Return whether the later call is the earlier one again, and brought nothing new."""
    if after.name in config.ignore:
        return False
    known = before.outcome is not None and after.outcome is not None
    if known and not _has_same_outcome(before, after):
        return False
    if before.name != after.name:
        # The same question under another tool's name: only a telling answer shows it.
        same = after.arguments is not None and before.exact_arguments == after.exact_arguments
        return known and same and _is_stuck(after)
    if before.exact_arguments == after.exact_arguments:
        return True
    # Without a telling result, reading the next page or writing the next row would look like a
    # repeat.
    return known and _is_stuck(after) and before.argument_similarity(after) >= config.near


def _has_same_outcome(before: RecordedCall, after: RecordedCall) -> bool:
    if before.failure_message is not None:
        return before.failure_message == after.failure_message
    return before.outcome == after.outcome


def _is_stuck(call: RecordedCall) -> bool:
    """Return whether the same result again means that there is no progress."""
    return call.is_failure or len(call.outcome or "") >= _MIN_TELLING_RESULT


def _may_wait(calls: tuple[RecordedCall, ...], length: int, pause_s: float) -> bool:
    """Return whether the calls wait for each other, or for what their results call unfinished."""
    shows_motion = any(call.shows_motion for call in calls[:length])
    times = [call.at_s for call in calls[::length] if call.at_s is not None]
    if len(times) < len(calls[::length]):
        return shows_motion
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if any(gap < pause_s for gap in gaps):
        return False
    # A tenth less is clock jitter.
    return shows_motion or all(later >= 0.9 * earlier for earlier, later in pairwise(gaps))


def _loop_finding(
    calls: tuple[RecordedCall, ...], first: int, length: int, rounds: int, config: LoopConfig
) -> Finding:
    part = calls[-rounds * length :]
    pairs = zip(part, part[length:], strict=False)
    is_exact = all(a.exact_arguments == b.exact_arguments for a, b in pairs)
    rule = ("REPEAT" if length == 1 else "CYCLE") if is_exact else "NEAR_REPEAT"
    start = first + len(calls) - len(part)
    names = [shorten_name(call.name) for call in part[:length]]
    again = f"`{names[0]}`" if length == 1 else f"a cycle of {length} calls"
    detail = f"{again} was made {rounds} times without anything new"
    return _make_finding(
        rule, detail, rounds, names, range(start, start + len(part)), action=config.action
    )


def _make_finding(
    rule: str, detail: str, repeats: int, cycle: list[str], places: range, *, action: Action
) -> Finding:
    found = {"rule": rule, "tool": cycle[0], "repeats": repeats, "cycle": cycle}
    return Finding(
        code=ReasonCode.LOOP_DETECTED,
        surface=SURFACE,
        detail=detail,
        evidence={**found, "positions": list(places)},
        action=action,
    )


def _find_stall(calls: tuple[RecordedCall, ...], first: int, config: LoopConfig) -> Finding | None:
    # The last call may not have run yet; then it would be one more try.
    done = calls[:-1] if calls and calls[-1].outcome is None else calls
    if not done or calls[-1].name != done[-1].name or done[-1].name in config.ignore:
        return None
    last, count = done[-1], 0
    for call in reversed(done):
        if call.name != last.name or not _is_stuck(call) or not _has_same_outcome(call, last):
            break
        count += 1
    needed = config.no_progress
    if count >= needed and _may_wait(done[-count:], 1, config.pause_s):
        needed = max(needed, config.patient_repeats)
    if last.asks_for_state:
        needed = max(needed, config.polling_repeats)
    if count < needed:
        return None
    name, start = shorten_name(last.name), first + len(done) - count
    detail = f"`{name}` came back the same {count} times, whatever was asked"
    places = range(start, start + count)
    return _make_finding("NO_PROGRESS", detail, count, [name], places, action=config.action)


def _find_recurrence(
    calls: tuple[RecordedCall, ...], first: int, config: LoopConfig
) -> Finding | None:
    """Return the last call if it came back again and again, whatever was called in between."""
    if not calls or calls[-1].name in config.ignore or calls[-1].asks_for_state:
        return None
    last = calls[-1]
    places = [
        index
        for index, call in enumerate(calls)
        if call.name == last.name and call.exact_arguments == last.exact_arguments
    ]
    done = [calls[index] for index in places if calls[index].outcome is not None]
    if len(places) < config.recurrences or not done or not _is_stuck(done[-1]):
        return None
    if not all(_has_same_outcome(call, done[-1]) for call in done):
        return None
    name = shorten_name(last.name)
    detail = f"`{name}` came back {len(places)} times with the same result, among other calls"
    found = {"rule": "RECURRENCE", "tool": name, "repeats": len(places), "cycle": [name]}
    evidence = {**found, "positions": [first + index for index in places]}
    return Finding(
        code=ReasonCode.LOOP_DETECTED,
        surface=SURFACE,
        detail=detail,
        evidence=evidence,
        action=config.action,
    )


def _check_budgets(event: CallHistory, config: LoopConfig) -> Iterator[Finding]:
    # Not `sum`, which compensates since Python 3.12: a window must give the same float.
    cost = reduce(add, (call.cost for call in event.calls), event.earlier.cost)
    known = (event.earlier.since_s, event.earlier.until_s, *(call.at_s for call in event.calls))
    times = [at for at in known if at is not None]
    seconds = max(times) - min(times) if times else 0
    for resource, used, budget in (
        ("steps", event.earlier.calls + len(event.calls), config.max_calls),
        ("tokens", event.earlier.tokens + sum(c.tokens for c in event.calls), config.max_tokens),
        ("money", cost, config.max_cost),
        ("time", seconds, config.max_seconds),
    ):
        if budget is not None and used > budget:
            facts = {"resource": resource, "used": used, "budget": budget}
            yield Finding(
                code=ReasonCode.BUDGET_EXCEEDED,
                surface=SURFACE,
                detail=f"the budget of {resource} is used up",
                evidence={"rule": f"BUDGET_{resource.upper()}", **facts},
            )
