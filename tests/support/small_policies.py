"""Policies and requests over very few fields and values, so that rules often meet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.errors import PolicyError
from demur.policy.loader import parse_policy
from demur.policy.policy import Policy

__all__ = [
    "CONDITIONS",
    "CORE",
    "NUMBER_TESTS",
    "REQUESTS",
    "SMALL_POLICIES",
    "policy_of",
    "rule",
    "written",
]

CORE = Registry.load()
_VERDICTS = {"HARD_BLOCKS": "DENY", "ESCALATIONS": "ESCALATE", "ALLOW_PATHS": "ALLOW"}
_CODES = ["RCE_RISK", "SCOPE_MISSING"]


def rule(
    condition: Mapping[str, Any],
    verdict: str = "ESCALATE",
    codes: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a rule as it is written; its stage follows from its verdict."""
    stages = {value: key for key, value in _VERDICTS.items()}
    usual = [] if verdict == "ALLOW" else ["SCOPE_MISSING"]
    then = {"verdict": verdict, "reason_codes": usual if codes is None else list(codes)}
    extra = {key: more.pop(key) for key in ("constraints", "obligations") if key in more}
    stage = more.pop("stage", stages.get(verdict, "REQUIREMENTS"))
    return {"stage": stage, "if": condition, "then": {**then, **extra}, **more}


def written(*rules: Mapping[str, Any], **head: Any) -> str:
    """Return a policy as text; rules without an id are called R0, R1, ..."""
    return json.dumps(
        {
            "schema_version": "policy.v1",
            "policy_id": "small",
            "policy_version": "1",
            **head,
            "rules": [{"id": f"R{number}", **row} for number, row in enumerate(rules)],
        }
    )


def policy_of(*rules: Mapping[str, Any], **head: Any) -> Policy:
    """Return the policy of these rules."""
    return parse_policy(written(*rules, **head), "small.yaml", registry=CORE)


NUMBER_TESTS = st.one_of(
    st.sampled_from([1, 2]),
    st.builds(
        lambda operator, value: {operator: value},
        st.sampled_from(["gt", "gte", "lt", "lte", "ne"]),
        st.sampled_from([1, 2]),
    ),
    st.builds(
        lambda operator, values: {operator: values},
        st.sampled_from(["in", "not_in"]),
        st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=2, unique=True),
    ),
    st.sampled_from([{"missing": True}, {"exists": True}, {"exists": True, "gte": 2}]),
)
_FIELDS = st.sampled_from(["evidence.a", "evidence.b", "amount_usd"])
_LEAVES = st.dictionaries(_FIELDS, NUMBER_TESTS, min_size=1, max_size=2)
CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=2)})
        | st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=2)})
        | st.fixed_dictionaries({"not": inner})
    ),
    max_leaves=3,
)
_SEEN: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"findings.codes": {"contains": "RCE_RISK"}}, {"findings.count": {"gt": 0}}]
)


@st.composite
def _rules(draw: st.DrawFn, pool: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Draw a rule whose condition is made of conditions that other rules have too."""
    stage = draw(st.sampled_from([*_VERDICTS, "REQUIREMENTS"]))
    verdict = _VERDICTS.get(stage) or draw(st.sampled_from(["DENY", "ESCALATE"]))
    parts = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2))
    condition: dict[str, Any] = parts[0] if len(parts) == 1 else {"all": parts}
    if verdict != "ALLOW" and draw(st.integers(0, 3)) == 0:
        seen = draw(_SEEN)
        condition = {**seen, **condition} if draw(st.booleans()) else seen
    if draw(st.booleans()):
        condition = {"all": [{"action_type": draw(st.sampled_from(["x", "y"]))}, condition]}
    codes = st.lists(st.sampled_from(_CODES), min_size=1, max_size=2, unique=True)
    shadow = draw(st.integers(0, 5)) == 0
    chosen = [] if verdict == "ALLOW" else draw(codes)
    return rule(condition, verdict, chosen, stage=stage, shadow=shadow)


@st.composite
def _policies(draw: st.DrawFn) -> Policy:
    pool = draw(st.lists(CONDITIONS | _LEAVES, min_size=1, max_size=3))
    try:
        return policy_of(*draw(st.lists(_rules(pool), min_size=1, max_size=5)))
    except PolicyError as error:
        # The generator knows nothing of contradictions; everything else it writes is sound.
        assume("can satisfy" not in str(error))
        raise


SMALL_POLICIES = _policies()

_NUMBERS = st.sampled_from([0, 1, 2, 3])
REQUESTS = st.fixed_dictionaries(
    {
        "action": st.fixed_dictionaries(
            {"type": st.sampled_from(["x", "y", "z"])},
            optional={
                "amount": st.fixed_dictionaries({"value": _NUMBERS, "currency": st.just("USD")})
            },
        ),
    },
    optional={"evidence": st.fixed_dictionaries({}, optional={"a": _NUMBERS, "b": _NUMBERS})},
)
