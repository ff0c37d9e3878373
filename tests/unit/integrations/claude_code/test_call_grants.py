from gates import grant, opened

from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_code.call_grants import CallGrants, call_grants

GRANT = grant({"action": "refund"})


def test_grants_are_known_by_the_call() -> None:
    known = CallGrants()
    known.keep("a", [GRANT])
    known.keep("b", [])
    known.keep(None, [GRANT])

    assert known.of("a") == (GRANT,)
    assert known.of("b") == known.of(None) == known.of("") == ()


def test_only_the_last_calls_are_remembered() -> None:
    known = CallGrants(most=2)
    for call in ("a", "b", "a", "c"):
        known.keep(call, [GRANT])

    assert [bool(known.of(call)) for call in "abc"] == [True, False, True]


def test_all_who_decide_by_one_gate_share_them() -> None:
    with opened() as gate, opened() as other:
        call_grants(Enforcer(gate)).keep("a", [GRANT])

        assert call_grants(Enforcer(gate)).of("a") == (GRANT,)
        assert call_grants(Enforcer(other)).of("a") == ()


def test_without_a_gate_nothing_is_granted() -> None:
    by = Enforcer()
    call_grants(by).keep("a", [GRANT])

    assert call_grants(by).of("a") == ()
