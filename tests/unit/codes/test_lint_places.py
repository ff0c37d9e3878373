import ast

import pytest

from demur.codes.lint_places import DemurImports, code_places, member_name
from demur.codes.lint_rules import PlaceCertainty

IMPORTS = "import demur\nfrom demur import *\n"


def found(source: str) -> list[tuple[str, PlaceCertainty, bool]]:
    nodes = list(ast.walk(ast.parse(IMPORTS + source)))
    return [
        (ast.unparse(node), place.certainty, place.emits)
        for node, place in code_places(nodes, DemurImports(nodes))
    ]


@pytest.mark.parametrize(
    "source",
    [
        "format_refusal(c, detail)",
        "demur.format_refusal(code=c)",
        "Refusal.from_code(c)",
        "Refusal(code=c, detail=d)",
        "demur.guards.Finding(code=c)",
        "classify(verdict, [c])",
        "demur.make_decision(verdict, codes=(c,))",
        "Decision(reason_codes=[c])",
    ],
)
def test_an_argument_of_demur_that_emits_is_a_certain_place(source: str) -> None:
    assert found(source) == [("c", PlaceCertainty.CERTAIN, True)]


@pytest.mark.parametrize(
    "source",
    [
        "explain(c)",
        "ReasonCode(c)",
        "ReasonCode[c]",
        "sign_grant(key, codes=[c])",
        "Grant(codes=c)",
    ],
)
def test_an_argument_of_demur_that_looks_up_emits_nothing(source: str) -> None:
    assert found(source) == [("c", PlaceCertainty.CERTAIN, False)]


def test_codes_that_were_lifted_are_not_emitted() -> None:
    assert found("Decision(resolved_codes=[c])") == [("c", PlaceCertainty.CERTAIN, False)]
    assert found("resolved_codes = [c]") == [("c", PlaceCertainty.NAMED, False)]


@pytest.mark.parametrize(
    "source",
    [
        "reason_code = c",
        "self.reason_codes = [c]",
        "record['reason_codes'] = {c}",
        "reason_codes: list[str] = [c]",
        "reason_codes += [c]",
        "print(reason_code := c)",
        "reason_codes.append(c)",
        "record['reason_codes'].extend([c])",
        "f(reason_code=c)",
        "x = {'reason_codes': (c,)}",
        "def f(a, reason_code=c, *, b=1): ...",
        "def f(a=1, /, *, b, reason_code=c): ...",
        "lambda default_reason_code=c: 1",
        "mine.format_refusal(c)",
    ],
)
def test_a_name_that_speaks_of_reason_codes_is_a_place(source: str) -> None:
    assert found(source) == [("c", PlaceCertainty.NAMED, True)]


def test_plain_codes_are_only_likely_to_be_reason_codes() -> None:
    assert found("codes = [c]") == [("c", PlaceCertainty.LIKELY, True)]
    assert found("f(codes=[c])") == [("c", PlaceCertainty.LIKELY, True)]


@pytest.mark.parametrize(
    "source",
    [
        "x = c",
        "x: str",
        "reason_codes: list[str]",
        "f(code=c)",
        "codes_of[c]",
        "a, b = c",
        "explanation(c)",
        "reason_codes.count(c)",
        "{**reason_codes}",
        "x = {1: c}",
        "format_refusal(*c)",
        "classify(*c, d)",
        "classify(c)",
        "demur.format_refusal()",
        "(f or g)(c)",
        "def f(*, reason_code): ...",
    ],
)
def test_an_ordinary_program_has_no_place(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize(
    ("value", "leaves"),
    [
        ("[a, (b, {c})]", "abc"),
        ("a if x else b", "ab"),
        ("a or b", "ab"),
        ("[*a, b]", "ab"),
        ("[a] + b", "ab"),
        ("a | {b}", "ab"),
        ("frozenset({a})", "a"),
        ("tuple(str(a) for x in y)", "a"),
        ("[a for x in y]", "a"),
        ("{a for x in y}", "a"),
        ("(b := a)", "a"),
        ("ReasonCode(a)", "a"),
    ],
)
def test_each_single_code_in_a_value_is_found(value: str, leaves: str) -> None:
    assert sorted({code for code, _, _ in found(f"reason_codes = {value}")}) == list(leaves)


def test_a_members_value_is_the_member() -> None:
    [(code, _, _)] = found("reason_code = ReasonCode.RCE_RISK.value")

    assert code == "ReasonCode.RCE_RISK"


@pytest.mark.parametrize(
    ("source", "member"),
    [
        ("ReasonCode.RCE_RISK", "RCE_RISK"),
        ("demur.ReasonCode.NOPE", "NOPE"),
        ("ReasonCode.__members__", None),
        ("ReasonCode.RCE_RISK.value", None),
        ("Other.RCE_RISK", None),
        ("RCE_RISK", None),
    ],
)
def test_only_members_of_the_enum_are_members(source: str, member: str | None) -> None:
    nodes = list(ast.walk(ast.parse(IMPORTS)))

    assert member_name(ast.parse(source, mode="eval").body, DemurImports(nodes)) == member


def path(imports: str, name: str) -> str | None:
    nodes = list(ast.walk(ast.parse(imports)))
    return DemurImports(nodes).resolve_path(ast.parse(name, mode="eval").body)


@pytest.mark.parametrize(
    ("imports", "name", "expected"),
    [
        ("import demur", "demur.explain", "demur.explain"),
        ("import demur as d", "d.Refusal.from_code", "demur.Refusal.from_code"),
        (
            "import demur.codes.refusal_line",
            "demur.codes.refusal_line.REFUSAL_PREFIX",
            "demur.codes.refusal_line.REFUSAL_PREFIX",
        ),
        (
            "import demur.codes.refusal_line as line",
            "line.REFUSAL_PREFIX",
            "demur.codes.refusal_line.REFUSAL_PREFIX",
        ),
        ("from demur import format_refusal as fr", "fr", "demur.format_refusal"),
        (
            "from demur.codes import refusal_line as line",
            "line.REFUSAL_PREFIX",
            "demur.codes.refusal_line.REFUSAL_PREFIX",
        ),
        ("def f():\n  from demur import explain", "explain", "demur.explain"),
        ("from demur import *", "explain", "demur.explain"),
    ],
)
def test_an_alias_is_followed_to_its_home(imports: str, name: str, expected: str) -> None:
    assert path(imports, name) == expected


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import demurrage", "demurrage.explain"),
        ("import os, demur", "os.path"),
        ("from demurrage import explain", "explain"),
        ("from .demur import explain", "explain"),
        ("from . import explain", "explain"),
        ("from demur import *", "print"),
        ("import demur", "demur().explain"),
        ("import demur", "explain"),
    ],
)
def test_a_name_outside_demur_has_no_path(imports: str, name: str) -> None:
    assert path(imports, name) is None
