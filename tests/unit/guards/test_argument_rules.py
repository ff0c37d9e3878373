from typing import Any

import pytest

from demur.errors import InputError
from demur.guards.argument_rules import (
    DEFAULT_ARGUMENT_RULES,
    ArgumentHit,
    ArgumentRule,
    Operator,
    TrustedTargets,
    apply_operator,
    apply_rule,
    find_value_problem,
    outside_reason,
    read_argument_rules,
)
from demur.guards.tool_arguments import ArgumentPart
from demur.model.finding import Action


def sights(operator: Operator, seen: Any, value: Any = None, **trust: Any) -> list[ArgumentHit]:
    return list(apply_operator(operator, ArgumentPart("a", seen), value, TrustedTargets(**trust)))


@pytest.mark.parametrize(
    ("operator", "value", "hit", "miss"),
    [
        ("contains", "b", "abc", "xyz"),
        ("eq", 1, 1.0, True),
        ("ne", "a", "b", "a"),
        ("gt", 3, 4, 3),
        ("gte", 3, 3, 2),
        ("lt", 3, 2, 3),
        ("lte", 3, 3, 4),
        ("in", [1, "x"], "x", "y"),
        ("not_in", ["x"], "y", "x"),
        ("longer_than", 2, [1, 2, 3], "ab"),
        ("matches", r"^\d+$", "12", "1a"),
        ("starts_with", "ab", "abc", "cab"),
        ("host_not_in", ["example.com"], "https://example.org", "https://api.example.com"),
        ("metadata_address", None, "169.254.169.254", "10.0.0.1"),
        ("private_address", None, "http://10.0.0.1", "http://example.com"),
        ("outside_workspace", ["/w"], "/etc", "/w/a"),
        ("sweeping_sql", None, "delete from t", "select 1"),
    ],
)
def test_an_operator_sees_what_it_names(
    operator: Operator, value: Any, hit: Any, miss: Any
) -> None:
    assert len(sights(operator, hit, value)) == 1
    assert sights(operator, miss, value) == []


def test_being_there_can_be_enough() -> None:
    assert len(sights("present", None)) == 1


@pytest.mark.parametrize(
    ("operator", "value", "seen"),
    [("gt", 3, "5"), ("lt", 3, True), ("lte", 3, float("nan")), ("longer_than", 3, 7)],
)
def test_a_value_that_cannot_be_compared_is_unjudged(
    operator: Operator, value: Any, seen: Any
) -> None:
    [sight] = sights(operator, seen, value)

    assert sight.evidence == {"unjudged": True}


def test_a_text_nested_in_a_list_is_checked() -> None:
    [sight] = sights("outside_workspace", [{"p": "../x"}, 7], ["/w"])

    assert sight.place == "a.0.p"


def test_the_workspace_of_the_config_is_the_default() -> None:
    assert len(sights("outside_workspace", "/etc", workspace=("/w",))) == 1
    assert sights("outside_workspace", "/etc") == []


def test_a_trusted_host_may_be_private() -> None:
    assert sights("private_address", "http://db.internal", hosts=("db.internal",)) == []


def test_the_span_marks_the_matching_text() -> None:
    [sight] = sights("matches", "\ud800 ab 12", "[0-9]+")

    assert sight.span is not None
    assert (sight.span.start, sight.span.end) == (5, 7)


def test_a_value_that_is_no_text_has_no_span() -> None:
    [sight] = sights("gt", 5, 3)

    assert sight.span is None


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        ("gt", "3"),
        ("gt", True),
        ("in", "abc"),
        ("contains", 1),
        ("starts_with", ""),
        ("matches", "(?=a)"),
        ("matches", "\ud800"),
        ("host_not_in", [1]),
        ("outside_workspace", "/w"),
    ],
)
def test_a_value_that_does_not_go_with_its_operator_is_a_problem(
    operator: Operator, value: Any
) -> None:
    assert find_value_problem(operator, value)


def test_operators_without_a_value_take_any() -> None:
    assert find_value_problem("present", None) is None
    assert find_value_problem("eq", object()) is None


WORKSPACE = ["/srv/project", "/tmp/scratch"]  # noqa: S108 - only a name


@pytest.mark.parametrize(
    "path",
    [
        "",
        "src/main.py",
        "./a/../b",
        "/srv/project",
        "/srv/project/x",
        "/tmp/scratch/y",  # noqa: S108 - only a name
        "file:///srv/project/x",
        "docs\\a.md",
        "a%20b",
        "https://example.com/etc/passwd",
    ],
)
def test_a_path_inside_stays(path: str) -> None:
    assert outside_reason(path, WORKSPACE) is None


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../other",
        "a/../../b",
        "a\\..\\..\\b",
        "%2e%2e/x",
        "..%2fx",
        "/etc/passwd",
        "/srv/projects",
        "/srv/project/../x",
        "//host/share",
        "\\\\host\\share",
        "C:\\Windows",
        "~/x",
        "~root",
        "$HOME/x",
        "${HOME}",
        "%USERPROFILE%\\x",
        "file:///etc/passwd",
        "file:/etc/passwd",
        "a\0b",
        "a%00b",
    ],
)
def test_a_path_outside_leaves(path: str) -> None:
    assert outside_reason(path, WORKSPACE)


def test_a_drive_is_compared_without_case() -> None:
    assert outside_reason("c:\\Proj\\a", ["C:\\proj"]) is None
    assert outside_reason("c:\\proj\\..\\a", ["C:\\proj"])


def test_the_root_holds_everything() -> None:
    assert outside_reason("/etc/passwd", ["/"]) is None


ROW = {"id": "BIG_AMOUNT", "paths": ["amount"], "operator": "gt", "value": 100}


def test_rules_are_read_from_data() -> None:
    [rule] = read_argument_rules([{**ROW, "action": "escalate", "tools": ["pay_*"]}])

    assert rule.action is Action.ESCALATE
    assert rule.tools == ("pay_*",)
    assert rule.reason == "TOOL_NOT_ALLOWED"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "big amount"},
        {"paths": []},
        {"tools": []},
        {"paths": ["a..b"]},
        {"paths": ["a.**"]},
        {"paths": ["**"]},
        {"paths": [".".join("a" * 21)]},
        {"operator": "bigger"},
        {"value": "a lot"},
        {"colour": "red"},
        {"action": "shout"},
    ],
)
def test_a_row_that_is_no_rule_is_an_error(change: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_argument_rules([{**ROW, **change}])


def test_a_duplicate_rule_id_is_refused() -> None:
    with pytest.raises(InputError, match="two rules"):
        read_argument_rules([ROW, ROW])


def test_a_rule_looks_only_at_its_tools() -> None:
    [rule] = read_argument_rules([{**ROW, "tools": ["pay_*"]}])

    assert len(list(apply_rule(rule, "pay_out", {"amount": 101}, TrustedTargets()))) == 1
    assert list(apply_rule(rule, "list", {"amount": 101}, TrustedTargets())) == []


def test_an_argument_matched_by_two_paths_is_reported_once() -> None:
    rule = ArgumentRule(id="NO_DOTS", paths=("a.b", "**.b", "a"), operator="contains", value="..")

    [sight] = apply_rule(rule, "t", {"a": {"b": ".."}}, TrustedTargets())

    assert sight.place == "a.b"


def test_a_rule_may_name_its_own_code() -> None:
    rule = ArgumentRule(id="NO_X", paths=("x",), operator="present", code="POLICY_VIOLATION")

    assert rule.reason == "POLICY_VIOLATION"


def test_the_default_rules_have_the_codes_of_their_operators() -> None:
    assert {rule.id: str(rule.reason) for rule in DEFAULT_ARGUMENT_RULES} == {
        "METADATA_ADDRESS": "EGRESS_DENIED",
        "PRIVATE_ADDRESS": "EGRESS_DENIED",
        "OUTSIDE_WORKSPACE": "TOOL_NOT_ALLOWED",
        "SWEEPING_SQL": "UNAPPROVED_DESTRUCTION",
        "SQL_HOST": "RCE_RISK",
    }


@pytest.mark.parametrize(("value", "want"), [(None, 2), ("program", 1), ("file", 1)])
def test_a_rule_on_the_machine_of_the_database_may_name_what_is_reached(
    value: str | None, want: int
) -> None:
    rule = ArgumentRule(id="HOST_SQL", paths=("sql",), operator="host_access_sql", value=value)
    arguments = {"sql": "select load_file('x'); copy t to program 'id'"}

    hits = list(apply_rule(rule, "t", arguments, TrustedTargets()))

    assert len(hits) == want
    assert find_value_problem("host_access_sql", "disk")
