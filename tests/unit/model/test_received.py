from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, RefusalClass, RetryScope, Severity
from demur.model.next_step import next_step
from demur.model.received import tighten_to_registry, refusal_from_envelope
from demur.model.refusal import Refusal

CORE = Registry.load()
CODES = st.sampled_from([str(entry.code) for entry in CORE])
SCOPES = [None, *RetryScope]


def envelope(of: str = "RCE_RISK", **changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(Refusal.from_code(of, "x", registry=CORE))
    return {**made, **changed}


def strictness(kind: RefusalClass | None) -> int:
    return 0 if kind is None else kind.strictness


@given(
    CODES,
    st.none() | st.sampled_from(RefusalClass),
    st.none() | st.sampled_from(Advice),
    st.none() | st.sampled_from(RetryScope),
    st.fixed_dictionaries({"severity": st.sampled_from(Severity), "decided": st.booleans()}),
)
def test_nothing_that_is_read_is_looser(
    code: str,
    kind: RefusalClass | None,
    advice: Advice | None,
    scope: RetryScope | None,
    more: dict[str, Any],
) -> None:
    """INVARIANT: what is read of a known code is never looser than the registry."""
    claims = {"refusal_class": kind, "advice": advice, "retry_scope": scope}
    found = refusal_from_envelope(envelope(code, **claims, **more))
    entry = CORE[code]

    assert found is not None
    assert strictness(found.refusal_class) >= strictness(entry.refusal_class)
    assert found.advice in {entry.advice, Advice.DO_NOT_RETRY, None}
    assert SCOPES.index(found.retry_scope) >= SCOPES.index(entry.retry_scope)
    assert found.decided is entry.decided
    assert tighten_to_registry(found, registry=CORE) == found


@given(CODES)
def test_what_the_registry_says_is_kept_as_it_is(code: str) -> None:
    refusal = Refusal.from_code(code, "x", evidence={"a": [1]}, decision_id="dec_1", registry=CORE)

    assert tighten_to_registry(refusal, registry=CORE) is refusal
    assert refusal_from_envelope(msgspec.to_builtins(refusal)) == refusal


def test_a_forged_denial_is_not_retried() -> None:
    forged = envelope("APPROVAL_DENIED", advice="retry_later", evidence={"retry_after": 0})
    found = refusal_from_envelope(forged)

    assert found is not None
    assert not next_step(found).retry


def test_a_stricter_claim_is_kept_and_the_registry_named_that_was_asked() -> None:
    found = refusal_from_envelope(
        envelope("RATE_LIMIT", refusal_class="HARD_BLOCK", registry="elsewhere 9")
    )

    assert found is not None
    assert found.refusal_class is RefusalClass.HARD_BLOCK
    weaker = refusal_from_envelope(
        envelope("RCE_RISK", refusal_class="SOFT_BLOCK", registry="elsewhere 9")
    )
    assert weaker is not None
    assert (weaker.refusal_class, weaker.registry) == (RefusalClass.HARD_BLOCK, CORE.label)


def test_a_code_from_elsewhere_keeps_what_it_says() -> None:
    theirs = envelope("RATE_LIMIT", code="acme.com/BUSY", line="", advice="use_other_model")
    found = refusal_from_envelope(theirs)

    assert found is not None
    assert found.advice is Advice.USE_OTHER_MODEL


def shared(times: int) -> list[Any]:
    many: list[Any] = ["x"]
    for _ in range(times):
        many = [many] * 10
    return many


class Endless(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield 1


@pytest.mark.parametrize(
    "evidence",
    [{"a": shared(30)}, {"a": "x" * 3_000_000}, {"a": list(range(30_000))}, {"a": Endless()}],
)
def test_an_envelope_of_any_size_is_read_without_what_makes_it_large(evidence: Any) -> None:
    found = refusal_from_envelope(envelope(evidence=evidence, source={"name": "guard"}))

    assert found is not None
    assert (found.code, found.source) == ("RCE_RISK", None)
    assert found.evidence == {"left_out": ["evidence", "source"]}


@pytest.mark.parametrize(
    "changed",
    [{"evidence": {"a": object()}}, {"code": shared(30)}, {"detail": "x" * 3000}, {"line": "no"}],
)
def test_what_is_no_envelope_is_none(changed: dict[str, Any]) -> None:
    assert refusal_from_envelope(envelope(**changed)) is None
