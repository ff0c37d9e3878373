import msgspec
import pytest

from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.model.finding import Finding, Span


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 5), (3, 3)])
def test_a_span_cuts_the_text(start: int, end: int) -> None:
    span = Span(start=start, end=end)

    assert "abcdef"[span.start : span.end] == "abcdef"[start:end]


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (2, 1), (-5, -1)])
def test_a_span_runs_forward(start: int, end: int) -> None:
    with pytest.raises(InputError) as caught:
        Span(start=start, end=end)

    assert caught.value.problem == f"a span runs forward from 0, not from {start} to {end}"


def test_only_code_and_surface_are_needed() -> None:
    finding = Finding(code="RCE_RISK", surface=Surface.INPUT)

    assert (finding.span, finding.detail, finding.evidence) == (None, "", {})


def test_it_is_frozen() -> None:
    finding = Finding(code="RCE_RISK", surface=Surface.INPUT, span=Span(start=0, end=1))

    with pytest.raises(AttributeError):
        finding.code = "PII_DETECTED"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Span(start=0, end=1).end = 2  # type: ignore[misc]


def test_findings_share_no_evidence() -> None:
    first, second = (Finding(code="RCE_RISK", surface=Surface.INPUT) for _ in range(2))

    assert first == second
    assert first.evidence is not second.evidence


def test_it_survives_json() -> None:
    finding = Finding(
        code="RCE_RISK",
        surface=Surface.TOOL_CALL,
        span=Span(start=2, end=5),
        detail="curl | sh",
        evidence={"host": "example.org"},
    )

    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding


def test_a_bad_span_is_refused_in_json_too() -> None:
    text = '{"code": "RCE_RISK", "surface": "input", "span": {"start": 5, "end": 1}}'

    with pytest.raises(msgspec.ValidationError, match="runs forward"):
        msgspec.json.decode(text, type=Finding)
