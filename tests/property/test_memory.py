"""Memory only tightens unless lifting is on, and gives the same result on every machine."""

import math
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.property_runs import examples

from demur.canonical import canonicalise
from demur.classification import make_decision
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Verdict
from demur.memory.experience import MAX_NORM, ActionOutcome, Experience, Vector, cosine_score
from demur.memory.index import ColumnIndex, MatrixIndex, MemoryIndex
from demur.memory.projection import HashedProjection
from demur.memory.recall import MemorySettings, Recall, apply_memory, recall_similar
from demur.model.record import Similarity

CORE = Registry.load()
CODES = [entry.code for entry in CORE]
HARD = [entry.code for entry in CORE if entry.refusal_class is RefusalClass.HARD_BLOCK]
APPROVABLE = [entry.code for entry in CORE if "approval" in entry.grants]
FINAL = [Verdict.DENY, Verdict.ABSTAIN]


def fitted(values: dict[int, int]) -> Vector:
    """Return the vector of these values, halved until it is allowed."""
    while sum(value * value for value in values.values()) > MAX_NORM:
        values = {place: int(value / 2) for place, value in values.items()}
    return Vector.from_values(values)


SMALL = st.dictionaries(st.integers(0, 6), st.integers(-3, 3), max_size=5).map(Vector.from_values)
LARGE = st.dictionaries(st.integers(0, 40), st.integers(-4096, 4096), max_size=30).map(fitted)
VECTORS = SMALL | LARGE
SCORES = st.sampled_from([0.0, 0.5, 0.849999, 0.85, 0.9, 0.95, 0.979999, 0.98, 1.0])
LIFTING = st.builds(
    MemorySettings,
    lift=st.booleans(),
    escalate=st.sampled_from([0.5, 0.85]),
    block=st.sampled_from([0.85, 0.95, 1.0]),
    allow=st.sampled_from([0.5, 0.85, 0.98]),
    block_severity=st.integers(1, 5),
    top_k=st.integers(1, 4),
)
VERDICTS = st.sampled_from(list(Verdict))
LISTS = st.lists(st.sampled_from(CODES), max_size=3, unique=True)
LIFTABLE = st.lists(st.sampled_from(APPROVABLE), min_size=1, max_size=2, unique=True)


@st.composite
def recalls(draw: st.DrawFn, failure: st.SearchStrategy[float] = SCORES) -> Recall:
    score = draw(failure)
    return Recall(
        failure=Similarity(score=score),
        success=Similarity(score=draw(SCORES)),
        severe_score=min(score, draw(SCORES)),
        uncertainty_score=0.0,
        digest="sha256:0",
    )


@st.composite
def experiences(draw: st.DrawFn) -> list[Experience]:
    names = draw(st.lists(st.text(max_size=3), max_size=12, unique=True))
    return [
        Experience(
            memory_id=name,
            outcome=draw(st.sampled_from(ActionOutcome)),
            action_type="refund",
            projection="p",
            vector=draw(SMALL),
            created_at="2026-01-01T00:00:00Z",
            severity=draw(st.integers(1, 5)),
        )
        for name in names
    ]


@given(VERDICTS, LISTS | LIFTABLE, recalls(st.sampled_from([0.85, 0.95, 1.0])), LIFTING)
def test_a_failure_match_is_never_outvoted(
    verdict: Verdict, codes: list[str], found: Recall, given_settings: MemorySettings
) -> None:
    """INVARIANT: a failure match beats a success match."""
    after = apply_memory(verdict, codes, found, given_settings, CORE)

    assert found.failure.score >= given_settings.escalate
    assert after.verdict.precedence >= max(verdict, Verdict.ESCALATE, key=rank).precedence
    assert after.resolved_codes == ()


def rank(verdict: Verdict) -> int:
    return verdict.precedence


@given(st.sampled_from(FINAL), LISTS | LIFTABLE, recalls(), LIFTING)
def test_memory_leaves_a_final_verdict_unchanged(
    verdict: Verdict, codes: list[str], found: Recall, given_settings: MemorySettings
) -> None:
    """INVARIANT: memory never relaxes a DENY or an ABSTAIN."""
    after = apply_memory(verdict, codes, found, given_settings, CORE)

    assert (after.verdict, after.reason_codes, after.changed) == (verdict, tuple(codes), False)


@given(VERDICTS, LIFTABLE, st.sampled_from(HARD), recalls(), LIFTING)
def test_a_hard_block_stays_in_force(
    verdict: Verdict, codes: list[str], hard: str, found: Recall, given_settings: MemorySettings
) -> None:
    """INVARIANT: memory never lifts a HARD_BLOCK."""
    after = apply_memory(verdict, [*codes, hard], found, given_settings, CORE)

    assert hard in after.reason_codes
    assert after.resolved_codes == ()
    assert after.verdict.precedence >= verdict.precedence


@given(VERDICTS, LISTS | LIFTABLE, recalls(), LIFTING)
def test_only_what_an_approval_would_lift_is_ever_relaxed(
    verdict: Verdict, codes: list[str], found: Recall, given_settings: MemorySettings
) -> None:
    after = apply_memory(verdict, codes, found, given_settings, CORE)

    if after.verdict.precedence < verdict.precedence:
        assert given_settings.lift
        assert set(after.resolved_codes) <= set(APPROVABLE)
        assert all(CORE[code].refusal_class is None for code in after.reason_codes)
        assert set(codes) <= {*after.reason_codes, *after.resolved_codes}
    else:
        assert set(codes) <= set(after.reason_codes)
    assert after.changed == ((after.verdict, after.reason_codes) != (verdict, tuple(codes)))


@given(LISTS | LIFTABLE, recalls(), LIFTING)
def test_whatever_memory_says_of_an_escalation_can_be_classified(
    codes: list[str], found: Recall, given_settings: MemorySettings
) -> None:
    refusing = [*codes, "APPROVAL_REQUIRED"]
    after = apply_memory(Verdict.ESCALATE, refusing, found, given_settings, CORE)

    decision = make_decision(
        after.verdict, after.reason_codes, resolved_codes=after.resolved_codes, registry=CORE
    )
    assert decision.verdict is after.verdict


@given(experiences(), SMALL, LIFTING, st.randoms(use_true_random=False))
def test_any_order_of_experiences_gives_the_same(
    given_experiences: list[Experience], query: Vector, given_settings: MemorySettings, random: Any
) -> None:
    """INVARIANT: the order of the experiences does not matter."""
    shuffled = random.sample(given_experiences, len(given_experiences))

    assert recall_similar(MemoryIndex(shuffled), query, given_settings) == recall_similar(
        MemoryIndex(given_experiences), query, given_settings
    )


@given(experiences(), SMALL, st.integers(1, 4), st.integers(1, 5))
def test_a_search_finds_what_comparing_with_each_one_finds(
    given_experiences: list[Experience], query: Vector, top_k: int, grave: int
) -> None:
    hits = MemoryIndex(given_experiences).search(query, top_k, min_severity=grave)
    scored = sorted(
        (
            -cosine_score(query.dot(one.vector), query.norm, one.vector.norm),
            one.memory_id,
            one.severity,
        )
        for one in given_experiences
        if one.outcome is ActionOutcome.FAILURE and query.dot(one.vector) > 0
    )
    graves = [-score for score, _, severity in scored if severity >= grave]

    assert hits.failure.score == (-scored[0][0] if scored else 0.0)
    assert hits.severe == (graves[0] if graves else 0.0)
    names = [near.memory_id for near in hits.failure.top_k]
    assert names[:-1] == [name for _, name, _ in scored[:top_k]][:-1]
    assert len(names) == min(top_k, len(scored))


@given(st.lists(VECTORS, min_size=1, max_size=30), VECTORS, st.integers(1, 5))
@settings(max_examples=examples(300))
def test_with_and_without_numpy_the_same_is_found(
    vectors: list[Vector], query: Vector, count: int
) -> None:
    """INVARIANT: the matrix and the columns find the same neighbours with the same scores."""
    found = MatrixIndex(vectors).find_nearest(query, count)
    exact = [(row, query.dot(vector)) for row, vector in enumerate(vectors)]

    assert set(found) <= set(exact)
    assert top(found, vectors, query, count) == top(
        ColumnIndex(vectors).find_nearest(query, count), vectors, query, count
    )
    assert top(found, vectors, query, count) == top(
        [pair for pair in exact if pair[1] > 0], vectors, query, count
    )


def top(
    found: Any, vectors: list[Vector], query: Vector, count: int
) -> list[tuple[float, int, int]]:
    scored = [(-cosine_score(dot, query.norm, vectors[row].norm), row, dot) for row, dot in found]
    return sorted(scored)[:count]


@given(VECTORS, VECTORS)
def test_a_score_is_the_cosine_rounded_once(one: Vector, other: Vector) -> None:
    dot = one.dot(other)
    score = cosine_score(dot, one.norm, other.norm)

    assert dot == other.dot(one)
    assert 0.0 <= score <= 1.0
    if dot > 0:
        # Half a step below and above, squared: no root, no rounding.
        true = Fraction(dot * dot, one.norm * other.norm)
        steps = round(score * 10**6)
        assert Fraction(2 * steps - 1, 2 * 10**6) ** 2 <= true or steps == 0
        assert true < Fraction(2 * steps + 1, 2 * 10**6) ** 2
        assert math.isclose(score, math.sqrt(true), abs_tol=1e-6)


@given(VECTORS)
def test_a_vector_survives_storage_and_is_most_like_itself(vector: Vector) -> None:
    assert Vector.from_bytes(vector.to_bytes()) == vector
    assert cosine_score(vector.dot(vector), vector.norm, vector.norm) == float(vector.norm > 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)  # fmt: skip
PARTS = st.sampled_from(["action", "subject", "evidence", "context", "type", "intent", "amount"])


@given(st.dictionaries(PARTS, st.dictionaries(PARTS, JSON) | JSON))
def test_every_request_can_be_projected(facts: dict[str, Any]) -> None:
    plain = canonicalise(facts).value
    vector = HashedProjection().project(plain)

    assert vector == HashedProjection().project(dict(reversed(plain.items())))
    assert vector.size <= 512
