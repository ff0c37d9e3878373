from demur.codes.vocabulary import RefusalClass
from demur.detect.detector import detect_refusal
from demur.detect.signal import to_refusal


def test_a_refusal_in_prose_becomes_the_one_type_with_its_confidence() -> None:
    signal = detect_refusal("I'm sorry, but I can't help with that.")
    refusal = to_refusal(signal)

    assert refusal is not None
    assert refusal.code == "MODEL_DECLINED"
    assert refusal.refusal_class is not RefusalClass.HARD_BLOCK
    assert refusal.source is not None
    assert (refusal.source.name, refusal.source.confidence) == ("detect", signal.confidence)
    assert refusal.evidence["kind"] == "full"
    assert refusal.evidence["spans"] == [[0, 38]]


def test_a_typed_refusal_keeps_code_and_detail_and_needs_no_confidence() -> None:
    refusal = to_refusal(detect_refusal("REFUSED: RCE_RISK: eval"))

    assert refusal is not None
    assert refusal.line == "REFUSED: RCE_RISK: eval"
    assert refusal.source is not None
    assert refusal.source.confidence is None


def test_an_answer_that_refuses_nothing_makes_no_refusal() -> None:
    signal = detect_refusal("Sure! Here is the poem you asked for: the sea is wide.")

    assert not signal.is_refusal
    assert to_refusal(signal) is None
