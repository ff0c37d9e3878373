import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import grant

from demur.codes.vocabulary import Surface
from demur.enforce.result import CheckResult, acollect_grants, check_approval, collect_grants
from demur.errors import InputError

RULING = CheckResult(Surface.TOOL_CALL)
SIGNED = grant({"action": "refund"})


def test_the_two_ways_to_ask_are_known() -> None:
    assert [check_approval("message"), check_approval("interrupt")] == ["message", "interrupt"]


def test_an_unknown_approval_mode_is_refused() -> None:
    given: Any = "shout"
    with pytest.raises(InputError, match="unknown mode `shout`") as caught:
        check_approval(given)

    assert (caught.value.where, caught.value.help) == (
        "approval",
        "`message`, `interrupt` or `wait`",
    )


def both(grant_for: Any, context: Any = "who") -> tuple[Any, Any]:
    awaited = asyncio.run(acollect_grants(grant_for, RULING, context))
    return collect_grants(grant_for, RULING, context), awaited


def test_grants_come_from_whom_the_host_trusts() -> None:
    asked = list[Any]()

    def grant_for(result: CheckResult, context: Any) -> list[Any]:
        asked.append((result, context))
        return [SIGNED]

    assert both(grant_for) == ((SIGNED,), (SIGNED,))
    assert asked == [(RULING, "who")] * 2


def test_nobody_grants_nothing() -> None:
    assert both(None) == ((), ())
    assert both(lambda *_: None) == ((), ())


def test_a_grant_may_be_awaited_where_somebody_waits() -> None:
    async def grant_for(*_: Any) -> list[Any]:
        await asyncio.sleep(0)
        return [SIGNED]

    assert both(grant_for) == ((), (SIGNED,))


def _raising(*_: Any) -> list[Any]:
    raise ZeroDivisionError("a secret")


@given(st.sampled_from([_raising, lambda *_: [SIGNED, "yes"], lambda *_: True, lambda *_: SIGNED]))
def test_failures_are_no_grants(grant_for: Callable[..., Any]) -> None:
    """INVARIANT: a `grant_for` that fails grants nothing."""
    assert both(grant_for) == ((), ())


def test_the_kind_of_a_failure_is_logged_and_not_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collect_grants(_raising, RULING, None)

    assert caplog.messages == ["`grant_for` gave no grants: ZeroDivisionError"]
