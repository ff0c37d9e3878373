"""The gate raises nothing but demur errors, whatever its input."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.gates import CORE, TEXT, finding, gate_over, grant, opened, refund
from support.property_runs import examples

from demur.audit.pack import read_pack, write_pack
from demur.audit.report import export_pack
from demur.codes.loading import bundle_registry, parse_bundle
from demur.codes.vocabulary import Surface
from demur.errors import DemurError
from demur.gate.config import load_config
from demur.gate.gate import Gate
from demur.model.finding import Finding
from demur.policy.loader import parse_policy

T = TypeVar("T")
FEW = settings(max_examples=examples(40))
SOME = settings(max_examples=examples(150))
MANY = settings(max_examples=examples(300), suppress_health_check=[HealthCheck.data_too_large])

KEYS = st.sampled_from(
    [
        *("action", "type", "amount", "value", "currency", "subject", "id", "tenant", "evidence"),
        *("continues", "request_id", "policy", "policy_id", "context_ref", "token", "ticket_id"),
        *("schema_version", "intent", "target", "roles", "password", "é", "\ud800", "a.b", ""),
    ]
)
ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 20, 2**53, 10**400, 0.1, 1e-300, 1e300, float("nan"), float("inf")),
        *("", "refund", "USD", "EUR", "\ud800", "\x00", "decision_request.v1", "action", "x" * 300),
        *(b"bytes", Decimal("1.5"), 1j, object(), Exception(), Surface.INPUT, range(3), {1, 2}),
        MappingProxyType({"type": "refund"}),
    ]
)
VALUES = st.recursive(
    ODD | st.text(max_size=6) | st.integers() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS | st.integers(0, 3), inner, max_size=4)
    ),
    max_leaves=12,
)
NEAR = st.dictionaries(KEYS, VALUES, max_size=5).map(lambda change: {**refund(), **change})
INSIDE = st.builds(
    lambda action, evidence: refund(evidence=evidence) | {"action": action},
    st.dictionaries(KEYS, VALUES, max_size=4).map(lambda change: {**refund()["action"], **change}),
    st.dictionaries(KEYS, VALUES, max_size=4),
)


def taken(call: Callable[[], T]) -> T | None:
    """Return what a call gives, or None if it ended in an error of ours that can be read."""
    try:
        return call()
    except DemurError as error:
        _check_words(error)
        return None


def _check_words(error: DemurError) -> None:
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert all(problem.problem for problem in error.problems)


@cache
def bare() -> Gate:
    """Return a gate without a store: what is decided here is not kept."""
    return gate_over(None)


@MANY
@given(VALUES | NEAR | INSIDE)
def test_any_request_is_decided_or_raises_a_demur_error(request: Any) -> None:
    record = taken(lambda: bare().decide(request))

    if record is not None:
        assert record.sealed is not None
        assert record.seal_holds
        assert dict(record)
        assert record.decision.verdict is record.verdict


BESIDE = ("findings", "grants", "accepted", "signals", "tenant")


@SOME
@given(st.sampled_from(BESIDE), VALUES, st.booleans())
def test_any_extra_input_is_accepted_or_raises_a_demur_error(
    name: str, value: Any, later: bool
) -> None:
    beside = {name: value}
    if later:
        taken(lambda: asyncio.run(bare().adecide(refund(), **beside)))
    else:
        taken(lambda: bare().decide(refund(), **beside))


@SOME
@given(VALUES, VALUES, VALUES, VALUES)
def test_any_finding_is_recorded_or_raises_a_demur_error(
    code: Any, surface: Any, detail: Any, evidence: Any
) -> None:
    odd: list[Any] = [
        Finding(code=code, surface=Surface.INPUT),
        finding(surface=surface),
        finding(detail=detail),
        finding(evidence=evidence),
        finding(span=evidence),
    ]
    for one in odd:
        record = taken(partial(bare().decide, refund(), findings=[one]))
        assert record is None or len(record["findings"]) == 1


@FEW
@given(st.lists(NEAR | INSIDE, max_size=3), st.text(max_size=8) | VALUES)
def test_a_stored_gate_keeps_its_chain_after_any_request(
    requests: list[Any], continues: Any
) -> None:
    with opened() as gate:
        for request in (*requests, refund(continues=continues), refund(request_id=continues)):
            taken(partial(gate.decide, request))
        assert gate.decide(refund()).chain is not None


# Policies


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """Draw a text with some of it cut out, doubled, replaced or put elsewhere."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 40)))
        odd = st.sampled_from(
            ["", ":", "- ", "{", "[", "]", "'", '"', "&a", "*a", "!!x", "\t", "é"]
        )
        piece = draw(odd | st.just(text[start:end] * 2) | st.text(max_size=4))
        text = text[:start] + piece + text[end:]
    return text


@FEW
@given(st.text(max_size=60) | mutated(TEXT))
@example("a: " + "[" * 2000)
@example("a: &a [*a]")
@example("rules: !!python/object:os.system {}")
@example("1" * 5000)
@example("\ud800")
def test_any_policy_text_is_read_or_raises_a_demur_error(text: str) -> None:
    policy = taken(lambda: parse_policy(text, registry=CORE))

    assert policy is None or gate_over(None, policy).decide(refund()).verdict


# Bundles


@FEW
@given(st.text(max_size=30) | st.deferred(lambda: mutated(bundle_registry(CORE))))
@example('{"schema_version":"registry_bundle.v1","core":{"a":1e999},"organisations":[]}')
@example('{"schema_version":"registry_bundle.v1","core":"\\ud800","organisations":[]}')
def test_any_bundle_is_read_or_raises_a_demur_error(text: str) -> None:
    registry = taken(lambda: parse_bundle(text))

    assert registry is None or bundle_registry(registry).encode()


# Packs


@cache
def a_pack() -> bytes:
    with opened() as gate:
        record = gate.decide(refund(400), grants=[grant({"action": "refund"})])
        assert gate.store is not None
        return write_pack(export_pack(gate.store, record))


@FEW
@given(
    st.binary(max_size=60)
    | st.tuples(st.integers(0, 10**6), st.binary(min_size=1, max_size=8)).map(
        lambda change: _patched(a_pack(), *change)
    )
    | st.integers(0, 10**6).map(lambda end: a_pack()[: end % len(a_pack())])
)
def test_any_pack_is_read_or_raises_a_demur_error(raw: bytes) -> None:
    pack = taken(lambda: read_pack(raw))

    assert pack is None or raw == a_pack()


def _patched(raw: bytes, place: int, piece: bytes) -> bytes:
    start = place % len(raw)
    return raw[:start] + piece + raw[start + len(piece) :]


# Settings

SETTINGS = """
policy = "policy.yaml"
store = "demur.db"
durability = "full"
deadline_s = 1.5
mode = "enforce"
redaction = "strict"
redact_paths = ["trace"]
registries = ["acme.json"]
attempts = 3
[memory]
block = 0.95
lift = true
"""


@SOME
@given(st.binary(max_size=30) | mutated(SETTINGS).map(lambda text: text.encode("utf-8", "replace")))
@example(b"a = " + b"{a=" * 2000)
@example(b"attempts = " + b"9" * 5000)
@example(b"deadline_s = -inf")
def test_any_settings_are_read_or_raise_a_demur_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.toml"
    path.write_bytes(raw)
    taken(lambda: load_config(path))
