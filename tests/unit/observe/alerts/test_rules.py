from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.registry import CORE_PATH, Registry
from demur.codes.vocabulary import Severity
from demur.observe.alerts.rules import (
    AlertKind,
    AlertRule,
    AlertRuleError,
    DecisionSelector,
    SelectorField,
    ShareWhole,
    builtin_rules,
    describe_period,
    format_period,
    load_rules,
    parse_rule_period,
    parse_rules,
)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (10.0, "10"), (12.5, "12.5"), (123456789, "123456789")]
)
def test_every_digit_of_a_threshold_is_written(number: float, text: str) -> None:
    rule = AlertRule("A", AlertKind.COUNT, Severity.LOW, timedelta(hours=1), "words", number)

    assert rule.limit_text == text


@pytest.mark.parametrize(
    ("text", "period", "words"),
    [
        ("1m", timedelta(minutes=1), "minute"),
        ("90m", timedelta(minutes=90), "90 minutes"),
        ("1h", timedelta(hours=1), "hour"),
        ("7d", timedelta(days=7), "7 days"),
    ],
)
def test_a_period_is_read_and_written_alike(text: str, period: timedelta, words: str) -> None:
    assert parse_rule_period(text) == period
    assert format_period(period) == text
    assert describe_period(period) == words


def test_a_period_is_written_in_its_largest_unit() -> None:
    assert format_period(timedelta(minutes=120)) == "2h"
    assert format_period(timedelta(hours=48)) == "2d"


@pytest.mark.parametrize("text", ["", "h", "1", "0m", "-1h", "1.5h", "1w", "367d", "²h", 5, None])
def test_a_malformed_period_is_none(text: object) -> None:
    assert parse_rule_period(text) is None


HEAD = "schema_version: alert_rules.v1\nrules:\n"
COUNT = "{id: A1, kind: count, code: RCE_RISK, over: 3, window: 1h, severity: high, description: d}"


def rule(text: str) -> str:
    return f"{HEAD}  - {text}\n"


def problems(text: str) -> list[str]:
    with pytest.raises(AlertRuleError) as caught:
        parse_rules(text, "a.yaml", registry=Registry.load())
    return [str(problem) for problem in caught.value.problems]


def test_the_built_in_rules_watch_what_is_worth_waking_up_for() -> None:
    by_id = {rule.id: rule for rule in builtin_rules().rules}

    assert by_id["STORAGE_LOST"].threshold == 10
    assert by_id["STORAGE_LOST"].kind is AlertKind.SHARE
    assert by_id["CHARGEBACK_BLOCKS"].threshold == 50
    assert by_id["CHARGEBACK_BLOCKS"].window == timedelta(hours=1)
    assert by_id["CODE_EXECUTION_TRIED"].selector == DecisionSelector(
        SelectorField.CODE, "RCE_RISK"
    )
    assert by_id["BLOCKS_DOUBLED"].threshold == 2
    assert {rule.kind for rule in by_id.values()} == set(AlertKind)
    assert all(rule.runbook for rule in by_id.values())


def test_everything_that_is_left_out_has_a_sensible_value() -> None:
    [one] = parse_rules(rule(COUNT)).rules

    assert one.selector == DecisionSelector(SelectorField.CODE, "RCE_RISK")
    assert (one.threshold, one.minimum, one.whole) == (3, 1, ShareWhole.DECISIONS)
    assert (one.hold, one.cooldown, one.runbook) == (timedelta(), timedelta(), "")
    assert one.before == one.window
    assert one.severity is Severity.HIGH


def test_every_field_of_a_rule_is_read() -> None:
    text = (
        "{id: A1, kind: share, class: HARD_BLOCK, over_percent: 2.5, of: refusals, window: 30m, "
        "severity: low, for: 10m, cooldown: 1d, minimum: 7, description: d, runbook: r}"
    )
    [one] = parse_rules(rule(text)).rules

    assert one.selector == DecisionSelector(SelectorField.CLASS, "HARD_BLOCK")
    assert (one.threshold, one.minimum, one.whole) == (2.5, 7, ShareWhole.REFUSALS)
    assert (one.hold, one.cooldown) == (timedelta(minutes=10), timedelta(days=1))


def test_a_rule_can_watch_a_code_with_all_below_it_or_a_family(
    acme: Callable[..., RegistryDocument],
) -> None:
    own = acme({"code": "acme.com/SPICY", "parent": "CONTENT_SEXUAL"})
    registry = Registry(read_document(CORE_PATH), [own])

    [below] = parse_rules(
        rule(COUNT.replace("code: RCE_RISK", "parent: CONTENT_SEXUAL")), registry=registry
    ).rules
    [family] = parse_rules(
        rule(COUNT.replace("code: RCE_RISK", "family: content")), registry=registry
    ).rules

    assert below.selector == DecisionSelector(
        SelectorField.PARENT, "CONTENT_SEXUAL", ("CONTENT_SEXUAL", "CONTENT_CSAE", "acme.com/SPICY")
    )
    assert below.selector.label == "CONTENT_SEXUAL and below"
    assert family.selector is not None
    assert {"CONTENT_OTHER", "CONTENT_CBRN", "acme.com/SPICY"} <= set(family.selector.codes)
    assert "RCE_RISK" not in family.selector.codes
    assert family.selector.label == "family content"


def test_a_family_or_parent_that_nobody_holds_is_an_error_with_a_guess() -> None:
    [family] = problems(rule(COUNT.replace("code: RCE_RISK", "family: contant")))
    [parent] = problems(rule(COUNT.replace("code: RCE_RISK", "parent: CONTENT_OTHR")))

    assert "unknown family `contant`" in family
    assert "did you mean `content`?" in family
    assert "did you mean `CONTENT_OTHER`?" in parent


def test_codes_of_organisations_can_be_watched(acme: Callable[..., RegistryDocument]) -> None:
    registry = Registry(read_document(CORE_PATH), [acme({"code": "acme.com/LATE"})])
    text = rule(COUNT.replace("RCE_RISK", "acme.com/LATE"))

    assert parse_rules(text, registry=registry).rules[0].selector == DecisionSelector(
        SelectorField.CODE, "acme.com/LATE"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "a.yaml:1:1: a file of alert rules is a mapping"),
        ("rules: [", "a.yaml:2:1: not YAML"),
        ("schema_version: alert_rules.v2\nrules: [1]", "unknown schema version `alert_rules.v2`"),
        ("schema_version: alert_rules.v1", "a.yaml:1:1: `rules` is missing"),
        ("schema_version: alert_rules.v1\nrules: 3", "a.yaml:2:8: `rules` is a list"),
        ("schema_version: alert_rules.v1\nrules: []", "`rules` is a list of rules"),
        ("schema_version: alert_rules.v1\ndescription: 3\nrules: []", "`description` must be"),
        ("schema_version: alert_rules.v1\nruels: []", "did you mean `rules`?"),
        (rule("7"), "a.yaml:3:5: a rule is a mapping"),
        (rule("{}"), "`kind` is missing"),
        (rule("{kind: shares}"), "did you mean `share`?"),
        (rule("{kind: nothing at all}"), "one of count, share, rate_change, new_unknown_code"),
        (rule("{kind: count}"), "`id` is missing"),
        (
            rule(COUNT.replace("A1", "a1")),
            "`a1` is not a valid rule id\n  help: write one like `STORAGE_LOST`",
        ),
        (rule(COUNT.replace("RCE_RISK", "RCE_RISC")), "did you mean `RCE_RISK`?"),
        (rule(COUNT.replace("RCE_RISK", "ZZZZ_99")), "`demur codes list` shows all"),
        (rule(COUNT.replace("RCE_RISK", "SUCCESS_MEMORY_SIMILAR_ALLOW")), "refuses nothing"),
        (rule(COUNT.replace("code: RCE_RISK", "verdict: NO_VERDICT")), "unknown verdict"),
        (rule(COUNT.replace("code: RCE_RISK, ", "")), "the rule has no selector"),
        (rule(COUNT.replace("code:", "verdict: DENY, code:")), "the rule has several selectors"),
        (rule(COUNT.replace("over: 3, ", "")), "`over` is missing"),
        (rule(COUNT.replace("over: 3", "over: 2.5")), "`over` is a whole number from 0 to"),
        (rule(COUNT.replace("over: 3", "over: true")), "`over` is a whole number"),
        (rule(COUNT.replace("over: 3", "over_percent: 3")), "unknown key `over_percent`"),
        (rule(COUNT.replace("over: 3", "over: 3, minimum: 3")), "unknown key `minimum`"),
        (rule(COUNT.replace("1h", "1y")), "`1y` is not a period\n  help: like 5m, 1h or 7d"),
        (rule(COUNT.replace("window: 1h, ", "")), "`window` is missing"),
        (rule(COUNT.replace("high", "loud")), "unknown severity `loud`"),
        (rule(COUNT.replace("description: d", "description: '  '")), "`description` must be"),
        (rule(COUNT.replace("description: d", f"description: {'d' * 301}")), "one line of at most"),
        (rule(COUNT.replace("description: d", 'description: "a\\nb"')), "one line of at most"),
        (rule(COUNT.replace("description: d", "description: d, runbook: 3")), "`runbook` must be"),
    ],
)
def test_a_problem_says_where_and_what(text: str, problem: str) -> None:
    assert problem in "\n".join(problems(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: share, over_percent: 100", "a percentage from 0 to less than 100, not `100`"),
        ("kind: share, over_percent: x", "a percentage"),
        ("kind: share, over_percent: 5, minimum: 0", "`minimum` is a whole number above 0"),
        ("kind: share, over_percent: 5, minimum: true", "`minimum` is a whole number above 0"),
        ("kind: share, over_percent: 5, of: users", "one of decisions, refusals"),
        ("kind: rate_change, factor: 1", "a factor above 1, at most 1000, not `1`"),
        ("kind: rate_change, factor: 2, before: soon", "`soon` is not a period"),
    ],
)
def test_numbers_must_make_sense_for_their_kind(text: str, problem: str) -> None:
    rest = "id: A1, code: RCE_RISK, window: 1h, severity: high, description: d"

    assert problem in "\n".join(problems(rule(f"{{{text}, {rest}}}")))


def test_all_problems_come_at_once_and_ids_stand_once() -> None:
    text = f"{HEAD}  - {COUNT}\n  - {COUNT.replace('high', 'loud')}\n"

    assert problems(text) == [
        "a.yaml:4:74: unknown severity `loud`\n  help: one of info, low, medium, high, critical",
        "a.yaml:4:5: rule `A1` appears twice\n  help: also at a.yaml:3:5",
    ]


def test_rules_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(rule(COUNT))

    assert load_rules(path).where == str(path)
    with pytest.raises(AlertRuleError, match="cannot read the alert rules"):
        load_rules(tmp_path / "none.yaml")
