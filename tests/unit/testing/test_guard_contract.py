import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from support.gates import CORE
from support.sample_guards import finding, guard, raising, seeing

import demur.testing
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError, UnknownCodeError
from demur.guards import rate
from demur.model.finding import Finding
from demur.testing.guard_contract import (
    allow_rows,
    assert_guard_contract,
    contract_breaches,
    refuse_rows,
)


def breaches(one: Any, *events: Any, **more: Any) -> set[str]:
    """Return what is wrong, without the event."""
    return {said.rpartition("`: ")[2] for said in contract_breaches(one, events, **more)}


def test_a_sound_guard_has_nothing_to_fear() -> None:
    sound = seeing(finding(start=0, end=0))

    assert breaches(sound, "some text") == set()
    assert_guard_contract(sound, ["some text"])


def test_everything_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_guard_contract(seeing(finding("MADE_UP"), finding(end=99)), ["abc", "x" * 200])

    words = str(caught.value)
    assert words.startswith("the guard `toy` breaks the contract:\n- `abc`: the code `MADE_UP`")
    assert "- `abc`: the span ends at 99, and the text at 3" in words
    assert f"`{'x' * 60}…`: " in words


def test_a_malformed_guard_is_reported_without_running_it() -> None:
    assert breaches(guard(lambda: None, codes=())) == {  # type: ignore[arg-type, misc] # that is the point
        "`CODES` must be a tuple of reason codes",
        "`check` must take an event and a config",
    }


def test_a_guard_must_not_raise() -> None:
    assert breaches(raising(KeyError("x"))) == {"it raises KeyError: 'x'"}


@pytest.mark.parametrize("error", [InputError("no"), InputTypeError("no")])
def test_a_guard_may_refuse_an_event(error: Exception) -> None:
    assert breaches(raising(error)) == set()


def test_a_guard_must_be_pure() -> None:
    count = itertools.count()

    def check(_event: Any, _config: Any) -> Iterator[Finding]:
        yield finding(start=0, end=0, detail=str(next(count)))

    assert breaches(guard(check)) == {
        "it returns different findings for the same event: it is not deterministic"
    }


def test_findings_come_in_order() -> None:
    later, earlier = finding(start=2, end=3), finding(start=0, end=1)
    many = breaches(seeing(later, earlier), "abc")

    assert "the findings are not in the order of their spans" in many


def test_there_is_an_end_to_findings() -> None:
    assert breaches(guard(lambda _e, _c: itertools.repeat(finding(start=0, end=0)))) == {
        "more than 100000 findings"
    }


def test_odd_texts_are_tried_where_texts_are_events() -> None:
    seen: list[Any] = []

    def check(event: Any, _config: Any) -> list[Finding]:
        seen.append(event)
        return []

    assert breaches(guard(check)) == set()
    assert any("\ud800" in event.text for event in seen)
    seen.clear()
    assert breaches(guard(check, surface=Surface.MODEL), {"any": "event"}, object()) == set()
    assert seen[0] == {"any": "event"}


def test_an_event_that_has_no_words_is_named_by_its_kind() -> None:
    broken = raising(KeyError("x"), surface=Surface.MODEL)

    assert list(contract_breaches(broken, [object(), {"a": 1}])) == [
        "`object`: it raises KeyError: 'x'",
        "`{\"a\":1}`: it raises KeyError: 'x'",
    ]


def test_the_config_is_the_argument_or_the_guards_own() -> None:
    seen: list[Any] = []

    def check(_event: Any, config: Any) -> list[Finding]:
        seen.append(config)
        return []

    assert breaches(guard(check, CONFIG="own"), "x") == set()
    assert breaches(guard(check, CONFIG="own"), "x", config="given") == set()
    assert set(seen) == {"own", "given"}
    event = {"key": "k", "limit": {"count": 1, "per_s": 1}, "cost": 2}
    assert breaches(rate, event, config={"action": "warn"}) == set()


def test_every_name_of_the_package_is_there_and_no_other() -> None:
    for name in demur.testing.__all__:
        assert getattr(demur.testing, name) is not None
        assert name in dir(demur.testing)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = demur.testing.nope


def test_rows_are_those_of_the_registry() -> None:
    entry = CORE["DESTRUCTIVE_ACTION"]

    assert refuse_rows("DESTRUCTIVE_ACTION", registry=CORE) == [
        ("DESTRUCTIVE_ACTION", row) for row in entry.examples.refuse
    ]
    assert allow_rows(["DESTRUCTIVE_ACTION"], registry=CORE) == [
        ("DESTRUCTIVE_ACTION", row) for row in entry.examples.allow
    ]


def test_a_surface_selects_the_codes_that_apply_to_it() -> None:
    rows = refuse_rows(surface="skill")

    codes = {code for code, _ in rows}
    assert {"RCE_RISK", "RISKY_IMPORT", "OBFUSCATED_CODE", "SKILL_INJECTION"} <= codes
    assert "CRISIS_ESCALATION" not in codes
    assert refuse_rows("SKILL_INJECTION", surface="input") == []
    assert len(allow_rows()) > len(allow_rows(surface="skill")) > 0


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(UnknownCodeError):
        refuse_rows("MADE_UP")
