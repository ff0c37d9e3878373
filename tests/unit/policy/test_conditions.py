"""Conditions as written, and the exact place of what is wrong with them."""

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import Problem
from demur.policy.conditions import ConditionReader, absent_paths, iter_comparisons, reads_findings
from demur.policy.facts import ROOTS
from demur.policy.policy import All, AnyOf, Compare, Condition, Not, Operator
from demur.source.item import SourceItem
from demur.source.reading import read_source

CORE = Registry.load()
A, B = Compare("evidence.a", Operator.EQ, 1), Compare("evidence.b", Operator.EQ, 2)
CODE = Compare("findings.codes", Operator.CONTAINS, "RCE_RISK")


def read(text: str) -> tuple[Condition, list[Problem]]:
    item = read_source("c", text)
    rule = SourceItem({"if": item}, "c", {"if": "c"}, item.problems)
    return ConditionReader(CORE).read_condition(rule), item.problems


def sound(text: str) -> Condition:
    condition, found = read(text)
    assert found == []
    return condition


def wrong(text: str) -> Problem:
    _, found = read(text)
    [problem] = found
    return problem


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("{}", All(())),
        ("{evidence.a: 1}", A),
        ("{evidence.a: {eq: 1}}", A),
        ("{evidence.a: 1, evidence.b: 2}", All((A, B))),
        ("{all: [{evidence.a: 1}, {evidence.b: 2}]}", All((A, B))),
        ("{any: [{evidence.a: 1}, {evidence.b: 2}]}", AnyOf((A, B))),
        ("{not: {evidence.a: 1}}", Not(A)),
        ("{not: {}}", Not(All(()))),
        ("{evidence.a: 1, not: {evidence.b: 2}}", All((A, Not(B)))),
        ("{action_type: x}", Compare("action.type", Operator.EQ, "x")),
        ("{amount_currency: EUR}", Compare("action.amount.currency", Operator.EQ, "EUR")),
        ("{amount_usd: {gt: 5}}", Compare("amount_usd", Operator.GT, 5)),
        ("{evidence.a: {in: [1, 2]}}", Compare("evidence.a", Operator.IN, (1, 2))),
        (
            "{evidence.a: {gt: 1, lt: 3}}",
            All(
                (Compare("evidence.a", Operator.GT, 1), Compare("evidence.a", Operator.LT, 3)),
            ),
        ),
        ("{subject.x-y_z.w1: true}", Compare("subject.x-y_z.w1", Operator.EQ, True)),
        ("{findings.codes: {contains: RCE_RISK}}", CODE),
        ("{any: [{findings.codes: {contains: RCE_RISK}}]}", AnyOf((CODE,))),
    ],
)
def test_a_condition_reads_as_written(text: str, want: Condition) -> None:
    assert sound(text) == want


@pytest.mark.parametrize("root", [root for root in ROOTS if root not in {"findings", "signals"}])
def test_every_part_of_a_request_can_be_read(root: str) -> None:
    assert sound(f"{{{root}: {{exists: true}}}}") == Compare(root, Operator.EXISTS, True)


OPERATORS = f"one of {', '.join(Operator)}"
FIELDS = f"one of action_type, amount_currency, amount_usd, {', '.join(ROOTS)}, all, any, not"
COUNT = f"`demur codes list` shows all {len(CORE)}"
FACTS = "one of findings.codes, findings.surfaces, findings.count"


@pytest.mark.parametrize(
    ("text", "where", "problem", "help_text"),
    [
        ("[]", "1:1", "a condition is a mapping", "like `action_type: refund`"),
        ("x", "1:1", "a condition is a mapping", "like `action_type: refund`"),
        ("{not: 5}", "1:7", "a condition is a mapping", "like `action_type: refund`"),
        ("{all: [5]}", "1:8", "a condition is a mapping", "like `action_type: refund`"),
        ("{all: {}}", "1:7", "`all` takes a list of conditions", None),
        ("{any: []}", "1:7", "`any` takes a list of conditions", None),
        ("{evidnce.a: 1}", "1:2", "unknown field `evidnce.a`", "did you mean `evidence`?"),
        ("{action_typ: x}", "1:2", "unknown field `action_typ`", "did you mean `action_type`?"),
        ("{zzz: x}", "1:2", "unknown field `zzz`", FIELDS),
        ("{evidence.: x}", "1:2", "unknown field `evidence.`", "did you mean `evidence`?"),
        ("{evidence.a..b: x}", "1:2", "unknown field `evidence.a..b`", "did you mean `evidence`?"),
        ("{evidence.é: x}", "1:2", "unknown field `evidence.é`", "did you mean `evidence`?"),
        ("{'': x}", "1:2", "unknown field ``", FIELDS),
        ("{findings: x}", "1:2", "unknown field `findings`", FACTS),
        ("{findings.code: x}", "1:2", "unknown field `findings.code`", FACTS),
        ("{evidence.a: {}}", "1:14", "an operator is missing", OPERATORS),
        ("{evidence.a: {gr: 1}}", "1:15", "unknown operator `gr`", OPERATORS),
        (
            "{evidence.a: {start_with: x}}",
            "1:15",
            "unknown operator `start_with`",
            "did you mean `starts_with`?",
        ),
        ("{evidence.a: {gt: x}}", "1:19", "`gt` takes a number", None),
        ("{evidence.a: {in: 5}}", "1:19", "`in` takes a list with at least one value", None),
        ("{evidence.a: [1]}", "1:14", "`eq` takes a text, a number, true or false", None),
        ("{evidence.a: null}", "1:14", "`eq` takes a text, a number, true or false", None),
        (
            "{evidence.a: {eq: 5, gt: 5}}",
            "1:1",
            "no value of `evidence.a` can satisfy this condition",
            None,
        ),
        (
            "{action_type: x, action.type: y}",
            "1:1",
            "no value of `action.type` can satisfy this condition",
            None,
        ),
        (
            "{not: {amount_usd: {lt: 0}}}",
            "1:7",
            "no value of `amount_usd` can satisfy this condition",
            None,
        ),
        (
            "{findings.codes: {contains: RCE_RIKS}}",
            "1:29",
            "unknown reason code `RCE_RIKS`",
            f"did you mean `RCE_RISK`? {COUNT}",
        ),
        ("{findings.codes: {contains: 5}}", "1:29", "unknown reason code `5`", COUNT),
        (
            "{findings.surfaces: {contains: inputs}}",
            "1:32",
            "unknown surface `inputs`",
            "did you mean `input`?",
        ),
    ],
)
def test_a_problem_has_a_location_and_help(
    text: str, where: str, problem: str, help_text: str | None
) -> None:
    assert wrong(text) == (f"c:{where}", problem, help_text)


@pytest.mark.parametrize(
    ("path", "ways", "tests"),
    [
        (
            "findings.codes",
            "contains",
            ["RCE_RISK", "{eq: RCE_RISK}", "{ne: RCE_RISK}", "{in: [RCE_RISK]}", "{missing: true}"],
        ),
        ("findings.surfaces", "contains", ["input", "{not_in: [input]}", "{exists: true}"]),
        ("findings.count", "gt or gte", ["0", "{lt: 5}", "{lte: 5}", "{eq: 0}", "{ne: 0}"]),
    ],
)
def test_findings_are_read_only_positively(path: str, ways: str, tests: list[str]) -> None:
    for test in tests:
        where, problem, _ = wrong(f"{{{path}: {test}}}")
        assert str(where).startswith("c:1:")
        assert problem == f"`{path}` may be read only positively, by {ways}"


@pytest.mark.parametrize(
    "text",
    [
        "{not: {findings.count: {gt: 1}}}",
        "{not: {not: {findings.count: {gt: 1}}}}",
        "{not: {all: [{findings.count: {gt: 1}}]}}",
        "{any: [{not: {findings.count: {gt: 1}}}]}",
    ],
)
def test_findings_are_not_read_under_not_however_often(text: str) -> None:
    _, problem, _ = wrong(text)

    assert problem == "`findings.count` may be read only positively, by gt or gte"


@pytest.mark.parametrize(
    "text",
    [
        "{any: [{findings.count: {gt: 1}}, {evidence.a: 1}]}",
        "{any: [{findings.count: {gt: 1}, evidence.a: 1}]}",
        "{any: [{evidence.a: 1}, {all: [{findings.count: {gt: 1}}]}]}",
    ],
)
def test_findings_are_no_alternative_to_other_facts(text: str) -> None:
    assert wrong(text) == (
        "c:1:7",
        "`any` cannot mix findings with other fields",
        "write one rule for each",
    )


def test_every_surface_can_be_read() -> None:
    for surface in Surface:
        sound(f"{{findings.surfaces: {{contains: {surface}}}}}")


def test_a_rule_without_a_condition_gets_help_on_writing_one() -> None:
    rule = SourceItem({}, "c:3:5", {}, [])

    assert ConditionReader(CORE).read_condition(rule) == All(())
    help_text = "write `if: {}` for a rule that always applies"
    assert rule.problems == [("c:3:5", "`if` is missing", help_text)]


def test_every_comparison_is_found_at_any_depth() -> None:
    condition = All((A, Not(AnyOf((B, Not(CODE))))))

    assert list(iter_comparisons(condition)) == [A, B, CODE]
    assert reads_findings(condition)
    assert not reads_findings(All((A, Not(B))))


def test_an_absence_counts_where_it_helps_the_condition() -> None:
    gone, there = (Compare("a.b", op, True) for op in (Operator.MISSING, Operator.EXISTS))

    assert list(absent_paths(All((gone, AnyOf((A, Not(there))))))) == ["a.b", "a.b"]
    assert list(absent_paths(All((there, Not(gone), Not(Not(there)))))) == []
