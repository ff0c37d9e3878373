"""Find calls that go in circles or past their budget. Codes: LOOP_DETECTED, BUDGET_EXCEEDED.

Four signs of a loop, looked for at the end of the history, where the next call would go on:
the same call again and again, almost the same call with the same result, a cycle of calls,
and failure after failure of one kind although the arguments vary. A different result is
progress: polling a job that moves, turning pages and reading many files all pass. So do tries
that wait: where times are known and the gaps never shrink, more of them are allowed.

Limits: results that were not recorded count as unchanged, but only for calls with the very
same arguments; a loop longer than the longest cycle is left to the budgets; a loop that the
agent has left is not reported.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.tool_loop.history import RecordedCall, CallHistory
from demur.model.finding import Action, Finding

__all__ = ["CODES", "SURFACE", "LoopConfig", "check"]

SURFACE = Surface.TOOL_LOOP
CODES = (ReasonCode.BUDGET_EXCEEDED, ReasonCode.LOOP_DETECTED)

# Shorter results (`ok`, `written`) are often alike although nothing is wrong.
_MIN_TELLING_RESULT = 80
_SHOWN = 40


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How much repetition makes a loop, and the budgets.

    `repeats` calls (or rounds of a cycle) in a row make a loop, `patient_repeats` if each waits
    at least `pause_s` seconds and no shorter than the one before. `near` is how alike arguments
    are that count as the same if the result is the same. `no_progress` failures in a row are
    too many, whatever the arguments. `ignore` names tools whose repetition means nothing, such
    as one that scrolls.
    """

    repeats: int = 3
    patient_repeats: int = 10
    pause_s: float = 1
    near: float = 0.95
    longest_cycle: int = 6
    no_progress: int = 8
    window: int = 64
    ignore: tuple[str, ...] = ()
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    action: Action = Action.BLOCK

    def __post_init__(self) -> None:
        if min(self.repeats, self.patient_repeats, self.no_progress) < 2:
            raise InputError("a loop is at least two calls", help="raise `repeats`")
        if self.longest_cycle < 1 or not 0 < self.near <= 1:
            raise InputError("`longest_cycle` starts at 1, and `near` lies between 0 and 1")
        if self.window < self.longest_cycle * self.repeats or self.window < self.no_progress:
            raise InputError(
                f"a window of {self.window} calls is too short",
                help="it must hold `repeats` rounds of the longest cycle",
            )


def check(event: CallHistory, config: LoopConfig) -> Iterator[Finding]:
    """Yield the loop that the history ends in, if any, and each budget that is used up."""
    if not isinstance(event, CallHistory):
        raise InputTypeError.wrong_type("the event", "a `CallHistory`", event)
    # INVARIANT: calls before the window make no loop.
    recent = event.calls[-config.window :]
    first = len(event.calls) - len(recent)
    loop = _find_cycle(recent, first, config) or _find_no_progress(recent, first, config)
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
        if rounds >= needed and _is_patient(calls[-rounds * length :], length, config.pause_s):
            needed = config.patient_repeats
        if rounds >= needed:
            return _loop_finding(calls, first, length, rounds, config)
    return None


def _is_repeat(before: RecordedCall, after: RecordedCall, config: LoopConfig) -> bool:
    """Return whether the later call is the earlier one again, and brought nothing new."""
    if before.name != after.name or after.name in config.ignore:
        return False
    known = before.outcome is not None and after.outcome is not None
    if known and not _has_same_outcome(before, after):
        return False
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


def _is_patient(calls: tuple[RecordedCall, ...], length: int, pause_s: float) -> bool:
    times = [call.at_s for call in calls[::length]]
    if None in times:
        return False
    moments = [at for at in times if at is not None]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    # A tenth less is clock jitter.
    return all(gap >= pause_s for gap in gaps) and all(
        later >= 0.9 * earlier for earlier, later in pairwise(gaps)
    )


def _loop_finding(
    calls: tuple[RecordedCall, ...], first: int, length: int, rounds: int, config: LoopConfig
) -> Finding:
    part = calls[-rounds * length :]
    is_exact = all(
        a.exact_arguments == b.exact_arguments for a, b in zip(part, part[length:], strict=False)
    )
    kind = ("repeat" if length == 1 else "cycle") if is_exact else "near_repeat"
    start = first + len(calls) - len(part)
    names = [_shorten_name(call.name) for call in part[:length]]
    again = f"`{names[0]}`" if length == 1 else f"a cycle of {length} calls"
    return Finding(
        code=ReasonCode.LOOP_DETECTED,
        surface=SURFACE,
        detail=f"{again} was made {rounds} times without anything new",
        evidence={
            "rule": kind.upper(),
            "tool": names[0],
            "repeats": rounds,
            "cycle": names,
            "positions": list(range(start, start + len(part))),
        },
        action=config.action,
    )


def _find_no_progress(
    calls: tuple[RecordedCall, ...], first: int, config: LoopConfig
) -> Finding | None:
    # The last call may not have run yet; then it would be one more try.
    done = calls[:-1] if calls and calls[-1].outcome is None else calls
    if not done or calls[-1].name != done[-1].name or done[-1].name in config.ignore:
        return None
    count = 0
    for call in reversed(done):
        if (
            call.name != done[-1].name
            or not _is_stuck(call)
            or not _has_same_outcome(call, done[-1])
        ):
            break
        count += 1
    needed = config.no_progress
    if count >= needed and _is_patient(done[-count:], 1, config.pause_s):
        needed = max(needed, config.patient_repeats)
    return _stall_finding(done, first, count, config) if count >= needed else None


def _stall_finding(
    done: tuple[RecordedCall, ...], first: int, count: int, config: LoopConfig
) -> Finding:
    name = _shorten_name(done[-1].name)
    start = first + len(done) - count
    return Finding(
        code=ReasonCode.LOOP_DETECTED,
        surface=SURFACE,
        detail=f"`{name}` came back the same {count} times, whatever was asked",
        evidence={
            "rule": "NO_PROGRESS",
            "tool": name,
            "repeats": count,
            "cycle": [name],
            "positions": list(range(start, start + count)),
        },
        action=config.action,
    )


def _check_budgets(event: CallHistory, config: LoopConfig) -> Iterator[Finding]:
    for resource, used, budget in (
        ("steps", event.earlier.calls + len(event.calls), config.max_calls),
        ("tokens", event.earlier.tokens + sum(c.tokens for c in event.calls), config.max_tokens),
        ("money", _total_cost(event), config.max_cost),
        ("time", _elapsed_seconds(event), config.max_seconds),
    ):
        if budget is not None and used > budget:
            yield Finding(
                code=ReasonCode.BUDGET_EXCEEDED,
                surface=SURFACE,
                detail=f"the budget of {resource} is used up",
                evidence={
                    "rule": f"BUDGET_{resource.upper()}",
                    "resource": resource,
                    "used": used,
                    "budget": budget,
                },
            )


def _total_cost(event: CallHistory) -> float:
    # Summed in the order of the calls, so that a window of them gives the same float.
    cost = event.earlier.cost
    for call in event.calls:
        cost += call.cost
    return cost


def _elapsed_seconds(event: CallHistory) -> float:
    known = (event.earlier.since_s, event.earlier.until_s, *(call.at_s for call in event.calls))
    times = [at for at in known if at is not None]
    return max(times) - min(times) if times else 0


def _shorten_name(name: str) -> str:
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return printable if len(printable) <= _SHOWN else f"{printable[: _SHOWN - 1]}…"
