"""The table, held against itself written the other way round: row by row, over the whole domain."""

import itertools

import pytest

from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.errors import InconsistentError
from demur.model.outcome import decision_output_for

FLAGS = (True, False)
DOMAIN = list(itertools.product(Verdict, [None, *RefusalClass], FLAGS, FLAGS, FLAGS))


def expected(
    verdict: str, refusal_class: str | None, constraints: bool, missing: bool, attempts: bool
) -> str | None:
    """Return the output as the specification's rows say it, or None for an impossible row."""
    rows = {
        ("allow", None): "ALLOW_EXECUTE",
        ("allow", "SOFT_BLOCK"): "ALLOW_CONSTRAINED" if constraints else None,
        ("block", "HARD_BLOCK"): "REFUSE_WITH_PATH",
        ("block", "WORKFLOW_BLOCK"): (
            "NEED_CONTEXT" if missing and attempts else "REFUSE_WITH_PATH"
        ),
        ("block", "SOFT_BLOCK"): (
            "NEED_CONTEXT" if constraints and attempts else "REFUSE_WITH_PATH"
        ),
    }
    return rows.get(("allow" if verdict == "ALLOW" else "block", refusal_class))


@pytest.mark.parametrize(("verdict", "refusal_class", "constraints", "missing", "left"), DOMAIN)
def test_the_whole_domain(
    verdict: Verdict,
    refusal_class: RefusalClass | None,
    constraints: bool,
    missing: bool,
    left: bool,
) -> None:
    want = expected(verdict, refusal_class, constraints, missing, left)

    def call() -> DecisionOutput:
        return decision_output_for(
            verdict, refusal_class, constraints=constraints, missing=missing, attempts_left=left
        )

    if want is None:
        with pytest.raises(InconsistentError):
            call()
    else:
        assert call() == want


def test_the_output_is_allow_if_and_only_if_the_verdict_is_allow() -> None:
    """INVARIANT: the output is ALLOW_* if and only if the verdict is ALLOW."""
    for verdict, refusal_class, constraints, missing, left in DOMAIN:
        if expected(verdict, refusal_class, constraints, missing, left) is None:
            continue
        output = decision_output_for(
            verdict, refusal_class, constraints=constraints, missing=missing, attempts_left=left
        )

        assert output.startswith("ALLOW_") is (verdict is Verdict.ALLOW)


def test_the_domain_is_the_whole_domain() -> None:
    assert len(DOMAIN) == 4 * 4 * 2 * 2 * 2
