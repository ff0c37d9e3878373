from datetime import timedelta

import pytest

from demur.codes.vocabulary import Severity
from demur.observe.alerts.rule import AlertRule, AlertKind


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (10.0, "10"), (12.5, "12.5"), (123456789, "123456789")]
)
def test_every_digit_of_a_threshold_is_written(number: float, text: str) -> None:
    rule = AlertRule("A", AlertKind.COUNT, Severity.LOW, timedelta(hours=1), "words", number)

    assert rule.limit_text == text
