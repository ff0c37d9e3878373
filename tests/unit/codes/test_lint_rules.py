import re
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.codes.document import RegistryDocument, read_document
from demur.codes.lint_python import check_python
from demur.codes.lint_rules import (
    CODE_RULES,
    CodeDiagnostic,
    LintLevel,
    LocatedDiagnostic,
    PlaceCertainty,
    PlaceKind,
    SourceComment,
    apply_suppressions,
    check_code,
    quote_text,
    unreadable_file,
)
from demur.codes.registry import CORE_PATH, Registry

CERTAIN = PlaceKind(PlaceCertainty.CERTAIN)
NAMED = PlaceKind(PlaceCertainty.NAMED)
LIKELY = PlaceKind(PlaceCertainty.LIKELY)


def rules(text: str, place: PlaceKind, registry: Registry) -> list[str]:
    return [remark.rule for remark in check_code(text, place, registry)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("RCE_RISC", "unregistered-code"),
        ("rce_risk", "unregistered-code"),
        ("", "unregistered-code"),
        ("acme.com/KYC_EXPIRED", "unregistered-code"),
        ("HIGH_RISK", "metric-code"),
        ("MEDIUM_CONFIDENCE", "metric-code"),
        ("REFUND_500_USD", "numeric-code"),
        ("REFUND_OVER_500", "numeric-code"),
        ("CHARGEBACK_RISK_87_PERCENT", "dynamic-code"),
        ("CHARGEBACK_RISK_87PCT", "dynamic-code"),
        ("FRAUD_SCORE_87", "dynamic-code"),
        ("CHARGEBACK_{score}", "dynamic-code"),
        ("CHARGEBACK_%d", "dynamic-code"),
        ("{{ .Values.code }}", "dynamic-code"),
        ("User might be dangerous", "prose-code"),
        ("50% of users refuse", "prose-code"),
        ("REFUSED: RCE_RISK: x", "raw-refusal-string"),
    ],
)
def test_a_text_that_is_no_code_falls_under_one_rule(text: str, rule: str, core: Registry) -> None:
    assert rules(text, CERTAIN, core) == [rule]


@pytest.mark.parametrize("text", ["RCE_RISK", "FRAUD_MODEL_HIGH_RISK", "UNGROUNDED"])
def test_a_registered_code_is_quiet_everywhere(text: str, core: Registry) -> None:
    assert [rules(text, place, core) for place in (CERTAIN, NAMED, LIKELY)] == [[], [], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FOO_BAR", (NAMED, LIKELY)),
        ("acme.com/FOO_BAR", (NAMED, LIKELY)),
        ("CHARGEBACK_{score}", (NAMED, LIKELY)),
        ("a sentence", (NAMED,)),
        ("FOO", ()),
        ("R01", ()),
        ("insufficient_funds", ()),
        ("{}", ()),
        ("", ()),
    ],
)
def test_away_from_demur_only_what_looks_like_a_code_is_judged(
    text: str, expected: tuple[PlaceKind, ...], core: Registry
) -> None:
    assert tuple(place for place in (NAMED, LIKELY) if rules(text, place, core)) == expected


def test_a_text_built_around_ordinary_words_is_no_code_where_that_is_only_likely() -> None:
    assert LIKELY.expects_built("RISK_ _HIGH")
    assert not LIKELY.expects_built("page 1")
    assert NAMED.expects_built("page 1")


def test_a_mistyped_code_gets_the_one_that_was_meant(core: Registry) -> None:
    [remark] = check_code("DESTRUCTIVE_ACTON", CERTAIN, core)

    assert remark.message == "unknown reason code `DESTRUCTIVE_ACTON`"
    assert remark.help.startswith("did you mean `DESTRUCTIVE_ACTION`?")


def test_a_sentence_that_was_once_logged_gets_the_code_it_means(core: Registry) -> None:
    [remark] = check_code("sorry, blocked by policy", CERTAIN, core)

    assert remark.help.startswith("did you mean `POLICY_VIOLATION`?")


def test_a_deprecated_code_is_never_suggested(core: Registry) -> None:
    [remark] = check_code("OLD_FRAUD_BLOCKS", CERTAIN, core)

    assert "OLD_FRAUD_BLOCK`" not in remark.help


def test_a_deprecated_code_warns_with_its_replacement(core: Registry) -> None:
    assert list(check_code("OLD_FRAUD_BLOCK", NAMED, core)) == [
        CodeDiagnostic(
            "deprecated-code",
            "`OLD_FRAUD_BLOCK` is deprecated since 1.0.0",
            "use `CHARGEBACK_RISK_BLOCK`",
        )
    ]


def test_a_deprecated_code_without_a_replacement_still_warns(
    acme: Callable[..., RegistryDocument],
) -> None:
    row = {
        "code": "acme.com/KYC_EXPIRED",
        "stability": "deprecated",
        "deprecated": True,
        "deprecated_since": "1.0.0",
    }
    registry = Registry(read_document(CORE_PATH), [acme(row)])
    [remark] = check_code("acme.com/KYC_EXPIRED", CERTAIN, registry)

    assert remark.rule == "deprecated-code"
    assert remark.help == CODE_RULES["deprecated-code"].help


def test_a_fallback_warns_and_names_a_few_of_its_children(core: Registry) -> None:
    [remark] = check_code("POLICY_VIOLATION", CERTAIN, core)
    children = [entry.code for entry in core.children("POLICY_VIOLATION")]

    assert remark.rule == "broad-code"
    assert f"{len(children)} narrower codes" in remark.message
    assert all(f"`{code}`" in remark.help for code in children[:3])
    assert children[3] not in remark.help


def test_a_parent_of_one_or_two_is_no_fallback(core: Registry) -> None:
    assert len(core.children("APPROVAL_LIMIT_EXCEEDED")) == 2
    assert rules("APPROVAL_LIMIT_EXCEEDED", CERTAIN, core) == []


@pytest.mark.parametrize(("deprecated", "expected"), [(True, []), (False, ["broad-code"])])
def test_a_deprecated_child_makes_no_fallback(
    acme: Callable[..., RegistryDocument], *, deprecated: bool, expected: list[str]
) -> None:
    row = {"code": "acme.com/TRAVEL_LIMIT", "parent": "APPROVAL_LIMIT_EXCEEDED"}
    ended = {"stability": "deprecated", "deprecated": True, "deprecated_since": "1.0.0"}
    registry = Registry(read_document(CORE_PATH), [acme({**row, **(ended if deprecated else {})})])

    assert rules("APPROVAL_LIMIT_EXCEEDED", CERTAIN, registry) == expected


@pytest.mark.parametrize("code", ["POLICY_VIOLATION", "OLD_FRAUD_BLOCK"])
def test_a_code_that_is_only_looked_up_does_not_warn(code: str, core: Registry) -> None:
    assert rules(code, PlaceKind(PlaceCertainty.CERTAIN, emits=False), core) == []


def test_an_organisations_code_is_known_with_its_registry(
    acme: Callable[..., RegistryDocument],
) -> None:
    registry = Registry(read_document(CORE_PATH), [acme({"code": "acme.com/KYC_EXPIRED"})])

    assert rules("acme.com/KYC_EXPIRED", CERTAIN, registry) == []
    assert rules("acme.com/KYC_EXPIRD", CERTAIN, registry) == ["unregistered-code"]


def test_rules_are_described_in_sentences_under_stable_names() -> None:
    assert list(CODE_RULES) == sorted(CODE_RULES)
    for rule in CODE_RULES.values():
        assert rule.summary.endswith(".")
        assert rule.help
    warnings = {rule.id for rule in CODE_RULES.values() if rule.level is LintLevel.WARNING}
    assert warnings == {"broad-code", "deprecated-code", "empty-detail", "prose-refusal"}


def test_shown_text_is_short_and_printable() -> None:
    assert quote_text("a\nb\ud800") == r"`a\nb\ud800`"
    assert quote_text("x" * 61) == f"`{'x' * 59}…`"
    assert quote_text("x" * 60) == f"`{'x' * 60}`"


def test_an_unreadable_file_is_reported_at_its_first_character_by_default() -> None:
    sighting = unreadable_file("a\nb")

    assert (sighting.line, sighting.column, sighting.message) == (1, 1, r"a\nb")


def documented() -> dict[str, tuple[str, str, str]]:
    page = Path(__file__).parents[3] / "docs/how-to/lint-codes.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+)` \| (.+) \| (.+) \| (.*) ?\|$", text, re.MULTILINE)
    return {rule: (level, bad.strip(), good.strip()) for rule, level, bad, good in rows}


def test_every_rule_is_documented_at_its_level() -> None:
    levels = {rule: level for rule, (level, _, _) in documented().items()}

    assert levels == {rule.id: rule.level.value for rule in CODE_RULES.values()}


@pytest.mark.parametrize("rule", [rule for rule, row in documented().items() if "`" in row[1]])
def test_the_page_shows_what_the_rule_finds(rule: str, core: Registry) -> None:
    start = b"from demur import *\n"
    _, *twins = documented()[rule]
    found = [check_python(start + twin.strip("`").encode(), core) for twin in twins]

    assert [[one.rule for one in sightings] for sightings in found] == [[rule], []]


def sighting(rule: str, line: int = 3, last_line: int = 3) -> LocatedDiagnostic:
    return LocatedDiagnostic(line, 5, rule, "a problem", "a help", last_line)


def left(rule: str, comment: str, *, line: int = 3, last_line: int = 3) -> list[str]:
    comments = [SourceComment(3, 20, comment)]
    return [one.rule for one in apply_suppressions([sighting(rule, line, last_line)], comments)]


@pytest.mark.parametrize(
    "comment",
    [
        "# demur: allow broad-code - nothing narrower fits",
        "#demur:allow broad-code - nothing narrower fits",
        "# demur: allow broad-code \N{EN DASH} nothing narrower fits",
        "# demur: allow broad-code -- nothing narrower fits",
        "# noqa: E501  # demur: allow broad-code - nothing narrower fits",
        "# demur: allow broad-code - nothing narrower fits  # noqa: E501",
        "# demur: allow metric-code, broad-code - a sample of both",
    ],
)
def test_a_comment_with_a_reason_silences_its_rule(comment: str) -> None:
    assert left("broad-code", comment) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# demur: allow broad-code",
        "# demur: allow broad-code -",
        "# demur: allow broad-code because I say so",
        "# demur: allow broad-code  # - not its reason",
    ],
)
def test_a_comment_without_a_reason_is_reported_in_place_of_what_it_hides(comment: str) -> None:
    assert left("broad-code", comment) == ["bare-suppression"]


def test_another_rule_is_not_silenced() -> None:
    assert left("prose-code", "# demur: allow broad-code - why") == ["prose-code"]


def test_another_line_is_not_silenced() -> None:
    comment = "# demur: allow broad-code - why"

    assert left("broad-code", comment, line=2, last_line=2) == ["broad-code"]
    assert left("broad-code", comment, line=4, last_line=9) == ["broad-code"]


def test_a_text_over_several_lines_is_silenced_where_it_ends() -> None:
    assert left("broad-code", "# demur: allow broad-code - why", line=1, last_line=3) == []


def test_a_mention_that_is_no_comment_of_ours_does_nothing() -> None:
    assert left("broad-code", "# demur: allows broad-code - why") == ["broad-code"]
    assert left("broad-code", "# see demur: allow broad-code - why") == ["broad-code"]


def test_a_mistyped_rule_is_reported_with_what_was_meant() -> None:
    [wrong] = apply_suppressions([], [SourceComment(7, 4, "#  # demur: allow broad-cod - why")])

    assert (wrong.line, wrong.column, wrong.rule) == (7, 7, "bare-suppression")
    assert wrong.message == "no rule `broad-cod` can be allowed"
    assert wrong.help == "did you mean `broad-code`?"


def test_a_comment_that_names_no_rule_is_reported() -> None:
    [wrong] = apply_suppressions([], [SourceComment(1, 1, "# demur: allow - why")])

    assert wrong.message == "a suppression names no rule"


def test_an_unknown_rule_far_from_any_lists_those_there_are() -> None:
    [wrong] = apply_suppressions([], [SourceComment(1, 1, "# demur: allow everything - why")])

    assert wrong.help.startswith("one of broad-code, deprecated-code, ")


@pytest.mark.parametrize("rule", ["unreadable", "bare-suppression"])
def test_unreadable_code_and_bad_suppressions_cannot_be_suppressed(rule: str) -> None:
    assert rule in CODE_RULES
    assert left(rule, f"# demur: allow {rule} - why") == [rule, "bare-suppression"]
