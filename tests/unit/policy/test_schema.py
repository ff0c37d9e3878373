import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from policy_page import generated_files, policy_page
from support.property_runs import examples
from support.small_policies import CONDITIONS, CORE, rule, written

from demur.codes.vocabulary import Obligation, Surface, Verdict
from demur.errors import PolicyError
from demur.policy import loader
from demur.policy.facts import FINDING_FACTS, ROOTS, SHORTCUTS
from demur.policy.lint import LINT_LEVELS
from demur.policy.loader import parse_policy, policy_schema
from demur.policy.policy import Mode, Operator, Stage

ROOT = Path(__file__).parents[3]
EXAMPLE = yaml.safe_load((ROOT / "examples/policies/support.yaml").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(policy_schema())


def fits(policy: Any) -> bool:
    return bool(VALIDATOR.is_valid(policy))


def loads(policy: Any) -> bool:
    try:
        parse_policy(json.dumps(policy), registry=CORE)
    except PolicyError as error:
        # What only loading can tell is not the schema's to say.
        return "can satisfy" in str(error)
    return True


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(policy_schema())


def test_the_example_fits() -> None:
    assert fits(EXAMPLE)
    assert loads(EXAMPLE)


def first(policy: Any) -> Any:
    return policy["rules"][0]


def put(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(policy: Any) -> None:
        *way, last = path
        for step in way:
            policy = policy[step]
        policy[last] = value

    return change


def drop(*path: str | int) -> Callable[[Any], None]:
    def change(policy: Any) -> None:
        *way, last = path
        for step in way:
            policy = policy[step]
        del policy[last]

    return change


IF, THEN = ("rules", 0, "if"), ("rules", 0, "then")
ALLOW = ("rules", -1)
SEEN = {"findings.codes": {"contains": "RCE_RISK"}}


@pytest.mark.parametrize(
    "breaking",
    [
        put("schema_version", value="policy.v2"),
        put("policy_version", value=1.0),
        put("policy_id", value=" "),
        put("mode", value="audit"),
        put("rule", value=[]),
        drop("rules"),
        drop("policy_id"),
        put("rates", value={"USD": 1}),
        put("rates", value={"EUR": 0}),
        put("rates", value={"EUR": True}),
        put("shadow", value=[{"code": "RATE_LIMIT"}]),
        put("defaults", value={"verdict": "DENY"}),
        put("defaults", value={"verdict": "NO"}),
        put("defaults", value={"reason_codes": ["RATE_LIMIT"]}),
        drop("rules", 0, "id"),
        drop("rules", 0, "stage"),
        drop("rules", 0, "if"),
        drop("rules", 0, "then"),
        put("rules", 0, "stage", value="DEFAULT"),
        put("rules", 0, "stage", value="HARD_BLOCKS"),
        put("rules", 0, "shadow", value="yes"),
        put(*IF, value=None),
        put(*IF, value=["x"]),
        put(*IF, value={"amount": 5}),
        put(*IF, value={"evidence.": 5}),
        put(*IF, value={"evidence.a": {}}),
        put(*IF, value={"evidence.a": None}),
        put(*IF, value={"evidence.a": [1]}),
        put(*IF, value={"evidence.a": {"is": 5}}),
        put(*IF, value={"evidence.a": {"gt": "5"}}),
        put(*IF, value={"evidence.a": {"in": []}}),
        put(*IF, value={"evidence.a": {"in": [1, "x"]}}),
        put(*IF, value={"evidence.a": {"in": [1, 1.0]}}),
        put(*IF, value={"evidence.a": {"starts_with": ""}}),
        put(*IF, value={"evidence.a": {"exists": False}}),
        put(*IF, value={"all": []}),
        put(*IF, value={"any": {"evidence.a": 1}}),
        put(*IF, value={"not": [{"evidence.a": 1}]}),
        put(*IF, value={"not": SEEN}),
        put(*IF, value={"not": {"not": SEEN}}),
        put(*IF, value={"any": [SEEN, {"evidence.a": 1}]}),
        put(*IF, value={"any": [{**SEEN, "evidence.a": 1}]}),
        put(*IF, value={"findings.codes": "RCE_RISK"}),
        put(*IF, value={"findings.count": {"lt": 2}}),
        put(*IF, value={"findings.surfaces": {"contains": "nowhere"}}),
        put(*IF, value={"findings.scores": {"gt": 1}}),
        put(*ALLOW, "if", value=SEEN),
        put(*ALLOW, "then", value={"verdict": "DENY", "reason_codes": ["RCE_RISK"]}),
        drop(*THEN, "verdict"),
        drop(*THEN, "reason_codes"),
        put(*THEN, "reason_codes", value=[]),
        put(*THEN, "reason_codes", value=["not a code"]),
        put(*THEN, "reason_codes", value=["SCOPE_MISSING", "SCOPE_MISSING"]),
        put(*THEN, "missing", value=[" "]),
        put(*THEN, "obligations", value=["apologise"]),
    ],
)
def test_schema_and_loader_refuse_what_is_broken(breaking: Callable[[Any], None]) -> None:
    policy = copy.deepcopy(EXAMPLE)
    breaking(policy)

    assert not fits(policy)
    assert not loads(policy)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"evidence": {"exists": True}},
        {"amount_currency": "EUR", "amount_usd": {"gte": 1}},
        {"any": [SEEN, {"findings.count": {"gte": 2}}, {"all": [SEEN]}]},
        {"all": [SEEN, {"any": [{"evidence.a": True}]}, {"not": {"not": {"evidence.a": 1}}}]},
        {"findings.surfaces": {"contains": "tool_call"}},
    ],
)
def test_schema_and_loader_take_what_is_sound(condition: dict[str, Any]) -> None:
    policy = copy.deepcopy(EXAMPLE)
    first(policy)["if"] = condition

    assert fits(policy)
    assert loads(policy)


ODD = st.sampled_from([None, True, 0, 1.5, "", "x", [], ["x"], [1, 1], {}, {"x": 1}, {"eq": 1}])
FIELDS = ["evidence.a", "evidence", "findings.codes", "findings.count", "amount_usd"]
KEYS = st.sampled_from([*FIELDS, "all", "any", "not", "nonsense"])
TESTS = st.dictionaries(st.sampled_from([*map(str, Operator), "is"]), ODD, max_size=2)
WILD = st.recursive(
    ODD | TESTS,
    lambda inner: st.dictionaries(KEYS, inner | st.lists(inner, max_size=2) | TESTS, max_size=2),
    max_leaves=4,
)


@settings(max_examples=examples(200))
@given(CONDITIONS | WILD, st.sampled_from(["DENY", "ALLOW"]))
def test_schema_and_loader_agree_on_generated_conditions(condition: Any, verdict: str) -> None:
    codes = [] if verdict == "ALLOW" else ["RCE_RISK"]
    policy = json.loads(written(rule(condition, verdict, codes)))
    try:
        parse_policy(json.dumps(policy), registry=CORE)
    except PolicyError as error:
        beyond = ("can satisfy", "unknown reason code")
        told = [p for p in error.problems if not any(words in p.problem for words in beyond)]
        assert fits(policy) is not bool(told)
    else:
        assert fits(policy)


def test_the_loader_knows_the_keys_of_the_schema_and_no_others() -> None:
    policy = json.loads(written(rule({}, "DENY", ["RCE_RISK"])))
    parts = (policy, policy["rules"][0], policy["rules"][0]["then"])
    for part in parts:
        part["qqqqqq"] = 1
    with pytest.raises(PolicyError) as caught:
        parse_policy(json.dumps(policy), registry=CORE)

    schema = policy_schema()
    described = (schema, schema["$defs"]["rule"], schema["$defs"]["then"])
    helps = {problem.help for problem in caught.value.problems}
    for part, what in zip(described, ("a policy", "a rule", "`then`"), strict=True):
        assert f"{what} has {', '.join(part['properties'])}" in helps


def test_the_schema_says_what_the_loader_says() -> None:
    schema = policy_schema()
    parts = schema["$defs"]
    stages = {
        part["if"]["properties"]["stage"]["const"]: set(
            part["then"]["properties"]["then"]["properties"]["verdict"]["enum"]
        )
        for part in parts["rule"]["allOf"]
    }
    [path] = parts["condition"]["patternProperties"]

    assert schema["properties"]["schema_version"]["const"] == loader.SCHEMA_VERSION
    assert schema["properties"]["mode"]["enum"] == list(Mode)
    assert parts["rule"]["properties"]["stage"]["enum"] == list(Stage)
    assert stages == {stage: set(verdicts) for stage, verdicts in loader._STAGE_VERDICTS.items()}
    assert parts["then"]["properties"]["verdict"]["enum"] == list(Verdict)
    assert parts["then"]["properties"]["obligations"]["items"]["enum"] == list(Obligation)
    assert list(parts["operators"]["properties"]) == list(Operator)
    assert set(FINDING_FACTS) <= set(parts["condition"]["properties"])
    surfaces = parts["condition"]["properties"]["findings.surfaces"]["properties"]["contains"]
    assert surfaces["enum"] == list(Surface)
    for name in (*SHORTCUTS, "amount_usd", *(f"{root}.x" for root in ROOTS if root != "findings")):
        assert re.search(path, name)
    assert not re.search(path, "findings.codes")


def test_the_files_in_the_repository_are_these() -> None:
    for path, content in generated_files():
        assert (ROOT / path).read_text(encoding="utf-8") == content


PAGE = policy_page(policy_schema())


def keys() -> list[str]:
    schema = policy_schema()
    parts = [schema, *(schema["$defs"][name] for name in ("rule", "then", "defaults", "shadow"))]
    return sorted({key for part in parts for key in part["properties"]})


@pytest.mark.parametrize("name", [*keys(), *Operator, *Stage, *LINT_LEVELS, "all", "any", "not"])
def test_everything_that_can_be_written_has_a_row(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE


def test_no_row_is_left_without_a_meaning() -> None:
    assert not [line for line in PAGE.splitlines() if line.endswith("|  |")]


def test_a_key_that_must_stand_says_so() -> None:
    assert "| `policy_id` | text | yes |" in PAGE
    assert "| `mode` | `enforce`, `advisory` |  |" in PAGE
    assert "| `exists` | `true` |" in PAGE
