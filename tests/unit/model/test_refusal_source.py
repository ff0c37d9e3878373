import pytest

from demur.errors import InputError
from demur.model.refusal import Refusal
from demur.model.refusal_source import RefusalSource


def test_a_source_given_as_text_is_its_name() -> None:
    assert Refusal.from_code("RCE_RISK", source="shell").source == RefusalSource(name="shell")


def test_a_source_needs_a_name() -> None:
    with pytest.raises(InputError, match="needs a name"):
        RefusalSource(name="")


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_a_confidence_lies_between_none_and_all(confidence: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        RefusalSource(name="detect", confidence=confidence)
