from typing import Any

import pytest

from demur.policy.lumyn_conditions import ImportedCondition, translate_condition
from demur.policy.lumyn_draft import ImportLog, UntranslatableError
from demur.source.item import SourceItem


def item(value: Any, where: str = "p:1:1") -> SourceItem:
    """Return a value as if it had been read."""
    if isinstance(value, dict):
        children = {key: item(child, f"at {key}") for key, child in value.items()}
        return SourceItem(children, where, {key: f"key {key}" for key in value}, [])
    if isinstance(value, list):
        return SourceItem([item(child) for child in value], where, {}, [])
    return SourceItem(value, where, {}, [])


def ask(allows: bool = False, **rule: Any) -> tuple[ImportedCondition, ImportLog]:  # noqa: FBT002 - a switch of this file
    diagnostics = ImportLog("R")
    fields = {key.rstrip("_"): item(value) for key, value in rule.items()}
    return translate_condition(fields, diagnostics, allowing=allows), diagnostics


def condition(**rule: Any) -> dict[str, Any]:
    return ask(**rule)[0].condition


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        ("evidence.risk_is", "high", {"evidence.risk": "high"}),
        ("evidence.risk_is", True, {"evidence.risk": True}),
        ("evidence.risk_is", None, {"evidence.risk": {"missing": True}}),
        ("evidence.risk_ne", None, {"evidence.risk": {"exists": True}}),
        ("evidence.risk_in", ["a", "b", "a"], {"evidence.risk": {"in": ["a", "b"]}}),
        ("evidence.risk_gt", 0.8, {"evidence.risk": {"gt": 0.8}}),
        ("evidence.risk_gte", "0.8", {"evidence.risk": {"gte": 0.8}}),
        ("evidence.risk_lt", "2", {"evidence.risk": {"lt": 2}}),
        ("evidence.risk_lte", 3, {"evidence.risk": {"lte": 3}}),
        ("evidence.count_90d_gte", 2, {"evidence.count_90d": {"gte": 2}}),
        ("evidence.is_in", [1], {"evidence.is": {"in": [1]}}),
        ("amount_usd_gt", 200, {"amount_usd": {"gt": 200}}),
        ("amount_usd_lte", 25, {"amount_usd": {"lte": 25}}),
        ("amount_currency_is", "EUR", {"amount_currency": "EUR"}),
        ("amount_currency_is", None, {"amount_currency": {"missing": True}}),
    ],
)
def test_each_form_has_its_field_and_operator(key: str, value: Any, want: dict[str, Any]) -> None:
    assert condition(if_={key: value}) == want


def test_when_if_and_all_stand_together_flat() -> None:
    got = condition(
        when={"action_type": "support.refund"},
        if_={"evidence.a_gte": 1},
        if_all=[{"evidence.a_lt": 5}, {"evidence.b_is": "x"}, {}],
    )

    assert got == {
        "action_type": "support.refund",
        "evidence.a": {"gte": 1, "lt": 5},
        "evidence.b": "x",
    }


def test_a_repeated_key_moves_to_an_all_group() -> None:
    got = condition(if_={"evidence.a_is": 1}, if_all=[{"evidence.a_is": 1}, {"evidence.a_is": 2}])

    assert got == {"evidence.a": 1, "all": [{"evidence.a": 2}]}


def test_alternatives_are_one_group() -> None:
    got = condition(
        when={"action_type": "a.b"}, if_any=[{"evidence.x_is": None}, {"evidence.y_is": None}]
    )

    assert got == {
        "action_type": "a.b",
        "any": [{"evidence.x": {"missing": True}}, {"evidence.y": {"missing": True}}],
    }


def test_an_alternative_that_asks_nothing_always_holds() -> None:
    assert condition(if_any=[{"evidence.x_is": 1}, {}]) == {}


@pytest.mark.parametrize("nothing", [{}, {"when": {}}, {"if_": None}, {"if_all": [], "if_any": []}])
def test_a_rule_without_conditions_always_applies(nothing: dict[str, Any]) -> None:
    assert condition(**nothing) == {}
    assert condition(when={"action_type": ""}) == {}


def test_a_block_still_takes_what_is_missing_for_unequal() -> None:
    got, diagnostics = ask(if_={"evidence.status_ne": "good", "amount_currency_ne": "USD"})

    assert got.condition == {
        "all": [
            {"any": [{"evidence.status": {"missing": True}}, {"evidence.status": {"ne": "good"}}]},
            {"any": [{"amount_currency": {"missing": True}}, {"amount_currency": {"ne": "USD"}}]},
        ]
    }
    assert [diagnostic.kind for diagnostic in diagnostics.found] == ["kinds"]


def test_an_allow_no_longer_takes_what_is_missing_for_unequal() -> None:
    got, diagnostics = ask(allows=True, if_={"evidence.status_ne": "banned"})

    assert got.condition == {"evidence.status": {"ne": "banned"}}
    assert [diagnostic.kind for diagnostic in diagnostics.found] == ["kinds", "unequal"]


def test_a_list_of_several_kinds_is_one_list_for_each() -> None:
    got = condition(if_={"evidence.a_in": ["x", 1, None, True, 2]})

    assert got == {
        "any": [
            {"evidence.a": {"missing": True}},
            {"evidence.a": {"in": ["x"]}},
            {"evidence.a": {"in": [1, 2]}},
            {"evidence.a": {"in": [True]}},
        ]
    }


def test_a_repeated_group_is_written_once() -> None:
    twice = [{"evidence.a_ne": 1}, {"evidence.a_ne": 1}]

    assert list(condition(if_all=twice)) == ["any"]


def test_actions_in_a_list_count_here() -> None:
    got, diagnostics = ask(when={"action_type_in": ["a.b", "a.c"]})

    assert got.condition == {"action_type": {"in": ["a.b", "a.c"]}}
    assert [(diagnostic.kind, diagnostic.where) for diagnostic in diagnostics.found] == [
        ("ignored-key", "key action_type_in")
    ]
    assert condition(when={"action_type_in": "a.b"}) == {"action_type": {"in": ["a.b"]}}


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        ("amount_usd", 20, {"amount_usd": 20}),
        ("amount_currency", "USD", {"amount_currency": "USD"}),
        ("action_type", "a.b", {"action_type": "a.b"}),
        ("evidence.a_in", "x", {"evidence.a": {"in": ["x"]}}),
    ],
)
def test_a_condition_that_lumyn_never_matches_is_reported(
    key: str, value: Any, want: dict[str, Any]
) -> None:
    for allows in (True, False):
        got, diagnostics = ask(allows=allows, if_={key: value})
        [diagnostic] = [
            diagnostic for diagnostic in diagnostics.found if diagnostic.kind == "never-matched"
        ]

        assert got == ImportedCondition(want, never=True)
        assert diagnostic.where == f"key {key}"
        assert ("stops what it did not stop" in diagnostic.message) is not allows


def test_an_alternative_that_never_held_allows_nothing_new() -> None:
    branches = [{"evidence.a_is": 1}, {"action_type": "a.b"}]

    assert ask(allows=True, if_any=branches)[0] == ImportedCondition(
        {"any": [{"evidence.a": 1}]}, never=False
    )
    assert ask(if_any=branches)[0].condition == {"any": [{"evidence.a": 1}, {"action_type": "a.b"}]}
    assert ask(allows=True, if_any=branches[1:])[0].never


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"if_": {"evidence.a_gt": "high"}}, "`evidence.a_gt` takes a number, not `high`"),
        ({"if_": {"evidence.a_gt": "inf"}}, "takes a number"),
        ({"if_": {"evidence.a_gt": True}}, "takes a number"),
        ({"if_": {"evidence.a_gt": None}}, "takes a number"),
        ({"if_": {"evidence.a_is": [1]}}, "`evidence.a` is compared with a text, a number"),
        ({"if_": {"evidence.a_in": [[1]]}}, "`evidence.a` is compared with a text, a number"),
        ({"if_": {"evidence.a_in": []}}, "an empty list"),
        ({"if_": {"evidence.a.b_is": 1}}, "`evidence.a.b_is` cannot be translated"),
        ({"if_": {"evidence._is": 1}}, "`evidence._is` cannot be translated"),
        ({"if_": {"evidence.a": 1}}, "`evidence.a` cannot be translated"),
        ({"if_": {"amount_usd_gtt": 1}}, "`amount_usd_gtt` cannot be translated"),
        ({"if_": {"amount_currency_ne": 5}}, "`amount_currency` is compared with a text"),
        ({"if_": []}, "a condition is a mapping"),
        ({"if_all": {}}, "`if_all` is a list of conditions"),
        ({"if_any": {"a": 1}}, "`if_any` is a list of conditions"),
        ({"when": {"action": "x"}}, "`action` cannot be translated"),
        ({"when": {"action_type": 5}}, "`action_type` is compared with a text"),
        ({"when": {"action_type_in": [5]}}, "`action_type` is compared with a text"),
    ],
)
def test_an_untranslatable_condition_is_refused(rule: dict[str, Any], problem: str) -> None:
    with pytest.raises(UntranslatableError) as caught:
        ask(**rule)

    assert problem in caught.value.problem
    assert caught.value.where


def test_amounts_and_the_callers_rate_are_remarked_once() -> None:
    _, diagnostics = ask(if_={"amount_usd_gt": 1, "evidence.fx_rate_to_usd_is": None})

    assert [(diagnostic.kind, diagnostic.rule) for diagnostic in diagnostics.found] == [
        ("rates", None)
    ]
