"""Properties of refusal detection: it answers for any text, in bounds, the same each time."""

from hypothesis import given
from hypothesis import strategies as st

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.detect.detector import DetectionBasis, RefusalKind, detect_refusal, to_refusal

ANY_TEXT = st.text(st.characters(codec=None), max_size=200)
PIECES = st.lists(
    st.sampled_from(
        [
            "I'm sorry, but I can't help with that.",
            "Sure! Here is how:",
            "1. Stir.",
            "```",
            '"I cannot assist."',
            "[A]: ",
            "</think>",
            "\n",
            " ",
            "REFUSED: RCE_RISK: x",
            "\u6211\u4e0d\u80fd\u63d0\u4f9b\u5e2e\u52a9\u3002",
            "\u201c",
            "However, it is illegal.",
            "\ud800",
            "?",
        ]
    ),
    max_size=14,
).map("".join)


@given(st.one_of(ANY_TEXT, PIECES), st.one_of(st.none(), ANY_TEXT))
def test_any_text_gets_an_answer_within_bounds(text: str, prompt: str | None) -> None:
    signal = detect_refusal(text, prompt)

    assert 0 <= signal.confidence <= 1
    assert (signal.code is None) == (signal.kind in (RefusalKind.NONE, RefusalKind.UNABLE))
    assert all(0 <= span.start < span.end <= len(text) for span in signal.spans)
    assert bool(signal.spans) == signal.is_refusal
    assert detect_refusal(text, prompt) == signal


@given(PIECES)
def test_weighed_words_never_make_a_hard_block(text: str) -> None:
    """INVARIANT: a judgement on words alone never carries a code of the class HARD_BLOCK."""
    signal = detect_refusal(text)

    if signal.basis in (DetectionBasis.PROSE, DetectionBasis.LEARNED) and signal.code is not None:
        assert Registry.load()[signal.code].refusal_class is not RefusalClass.HARD_BLOCK


@given(PIECES)
def test_every_signal_that_refuses_becomes_a_refusal_and_no_other(text: str) -> None:
    signal = detect_refusal(text)

    assert (to_refusal(signal) is not None) == signal.is_refusal


@given(st.sampled_from([0x20, 0x0A, 0x09]).map(chr), st.integers(0, 5))
def test_white_space_around_an_answer_changes_nothing(space: str, times: int) -> None:
    text = "I can't help with that. Is there anything else?"
    around = space * times

    assert detect_refusal(around + text + around).kind is detect_refusal(text).kind
