import asyncio
import dataclasses
from collections.abc import Callable, Iterator
from decimal import Decimal
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from gates import AGENT, CORE, TEXT, finding, grant, opened, rows
from toy_guards import seeing

from demur.codes.vocabulary import Surface
from demur.enforce.enforcer import Enforcer
from demur.enforce.ruling import Refused, CheckResult
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.integrations.guarded import guarded, guarding
from demur.model.finding import Action
from demur.policy.loader import parse_policy

READING = """
  - id: R_SEEN
    stage: ESCALATIONS
    if: {findings.count: {gt: 5}}
    then: {verdict: ESCALATE, reason_codes: [SCOPE_MISSING]}
  - id: R_ANY
    stage: ALLOW_PATHS
    if: {action_type: {in: [bash, read]}}
    then: {verdict: ALLOW}
"""
POLICY = parse_policy(TEXT + READING, registry=CORE)
FIVE = {"action": {"amount": {"value": 5, "currency": "USD"}}}
FAILING: Callable[[Any], Any] = itemgetter("absent")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with opened(POLICY) as made:
        yield made


def bash_by(gate: Gate, ran: list[Any], **settings: Any) -> Callable[..., Any]:
    """Return a shell that notes what it would run."""

    @guarded(gate, **{"on_refusal": "return", **settings})
    def bash(command: Any, user: str = "mary") -> str:
        ran.append(command)
        return user

    return bash


class Words(msgspec.Struct):
    command: str


@dataclasses.dataclass
class Order:
    command: Words


class Model:
    def model_dump(self) -> dict[str, Any]:
        """Return its fields."""
        return {"command": "rm -rf /"}


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        b"rm -rf /",
        bytearray(b"rm -rf /"),
        [b"rm", b"-rf", b"/"],
        [PurePosixPath("rm"), "-rf", PurePosixPath("/")],
        Model(),
        Words("rm -rf /"),
        Order(Words("rm -rf /")),
        iter(["rm", "-rf", "/"]),
        object(),
        [object()],
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_form_of_a_command_hides_it(command: Any, gate: Gate) -> None:
    ran: list[Any] = []

    bash = bash_by(gate, ran)

    assert not bash(command).allowed
    assert bash("ls") == "mary"
    assert ran == ["ls"]


def test_arguments_are_on_record_as_what_they_hold(gate: Gate) -> None:
    @guarded(gate)
    def read(page: Any, size: Any) -> None:
        """Read a page."""

    read(Order(Words("hello")), Decimal("20.00"))

    [record] = rows(gate)
    assert record["request"]["evidence"] == {"page": {"command": {"command": "hello"}}, "size": 20}


@pytest.mark.parametrize("setting", ["action", "subject", "tenant", "run", "grants", "request"])
def test_a_setting_that_fails_refuses_the_call(setting: str, gate: Gate) -> None:
    ran: list[Any] = []

    ruling = bash_by(gate, ran, **{setting: FAILING})("ls")

    assert (ruling.refusal.code, ruling.failed) == ("INTERNAL_ERROR", True)
    assert ruling.refusal.evidence["error"] == "KeyError"
    assert ran == []
    assert len(rows(gate)) == 1


def test_what_can_be_told_of_a_refused_call_is_on_record(gate: Gate) -> None:
    settings = {"tenant": "acme", "subject": FAILING, "run": itemgetter("user")}

    assert not bash_by(gate, [], **settings)("ls").allowed

    [record] = rows(gate)
    assert record.tenant == "acme"
    assert record["request"]["trace"]["run"] == "mary"


def test_grants_that_fail_late_refuse_the_call(gate: Gate) -> None:
    ran: list[Any] = []

    ruling = bash_by(gate, ran, grants=lambda given: (given[name] for name in ["absent"]))("ls")

    assert ruling.failed
    assert ran == []


def test_a_setting_that_fails_refuses_a_block(gate: Gate) -> None:
    async def awaited() -> None:
        async with guarding(gate, "read", subject=FAILING):
            pytest.fail("the block ran")

    with pytest.raises(Refused, match="INTERNAL_ERROR"), guarding(gate, "read", tenant=FAILING):
        pytest.fail("the block ran")
    with pytest.raises(Refused, match="INTERNAL_ERROR"):
        asyncio.run(awaited())


def warned(gate: Gate) -> Enforcer:
    """Return an enforcer whose guard has a mere doubt about every result."""
    doubt = finding("SCOPE_MISSING", surface=Surface.TOOL_RESULT, action=Action.WARN)
    toy = seeing(doubt, codes=("SCOPE_MISSING",), surface=Surface.TOOL_RESULT)
    return Enforcer(gate, subject=AGENT, pipeline=GuardPipeline([GuardStep(toy)]))


@pytest.mark.parametrize(
    ("action", "amount", "settings"),
    [
        ("cleanup", 1, {"accepted": ["dry_run"]}),
        ("refund", 900, {"grants": lambda _: iter([grant({"action": "refund"})])}),
        ("refund", 900, {"request": lambda _: FIVE}),
    ],
)
def test_what_let_a_call_run_holds_for_its_result(
    action: str, amount: int, settings: Any, gate: Gate
) -> None:
    @guarded(warned(gate), action=action, currency="USD", check_result=True, **settings)
    def act(ticket_id: str, amount: int) -> str:
        return f"{ticket_id} {amount}"

    @guarded(warned(gate), action=action, currency="USD", check_result=True, **settings)
    async def aact(ticket_id: str, amount: int) -> str:
        return f"{ticket_id} {amount}"

    assert act("T-1", amount) == asyncio.run(aact("T-1", amount)) == f"T-1 {amount}"
    # Of each call, one decision before it and one on what came of it.
    assert len(rows(gate)) == 4


def test_an_enforcer_takes_a_request_too(gate: Gate) -> None:
    def known(arguments: Any) -> dict[str, Any]:
        value = {"T-1": 900}[arguments["ticket_id"]]
        return {"action": {"amount": {"value": value, "currency": "USD"}}}

    @guarded(Enforcer(gate), request=known, on_refusal="return")
    def refund(ticket_id: str, amount: float) -> str:
        return f"{ticket_id} {amount}"

    ruling: Any = refund("T-1", 5)

    assert isinstance(ruling, CheckResult)
    assert ruling.refusal is not None
    assert ruling.refusal.code == "REFUND_OVER_ESCALATION_LIMIT"


def test_a_request_is_made_once_for_a_call_and_its_result(gate: Gate) -> None:
    made: list[Any] = []

    def known(arguments: Any) -> dict[str, Any]:
        made.append(arguments)
        return {}

    @guarded(warned(gate), check_result=True, request=known)
    def read(page: str) -> str:
        return page

    read("a")
    read("b")

    assert made == [{"page": "a"}, {"page": "b"}]
