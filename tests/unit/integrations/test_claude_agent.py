from support.gates import grant, opened

from demur.enforce.enforcer import Enforcer
from demur.integrations.claude_agent import CallGrants, grants_by_call

GRANT = grant({"action": "refund"})


def test_grants_are_known_by_the_call() -> None:
    known = CallGrants()
    known.keep("a", [GRANT])
    known.keep("b", [])
    known.keep(None, [GRANT])

    assert known.granted_for("a") == (GRANT,)
    assert known.granted_for("b") == known.granted_for(None) == known.granted_for("") == ()


def test_only_the_last_calls_are_remembered() -> None:
    known = CallGrants(max_calls=2)
    for call in ("a", "b", "a", "c"):
        known.keep(call, [GRANT])

    assert [bool(known.granted_for(call)) for call in "abc"] == [True, False, True]


def test_all_who_decide_by_one_gate_share_them() -> None:
    with opened() as gate, opened() as other:
        grants_by_call(Enforcer(gate)).keep("a", [GRANT])

        assert grants_by_call(Enforcer(gate)).granted_for("a") == (GRANT,)
        assert grants_by_call(Enforcer(other)).granted_for("a") == ()


def test_without_a_gate_nothing_is_granted() -> None:
    by = Enforcer()
    grants_by_call(by).keep("a", [GRANT])

    assert grants_by_call(by).granted_for("a") == ()
