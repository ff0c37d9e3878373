import pytest

from demur.errors import InputError
from demur.respond.audience import Audience, parse_audience


def test_an_audience_goes_by_its_name() -> None:
    assert parse_audience("agent") is Audience.AGENT


@pytest.mark.parametrize(
    ("name", "hint"), [("end-user", "did you mean `end_user`?"), ("cat", "one of end_user, agent")]
)
def test_an_unknown_audience_is_told(name: str, hint: str) -> None:
    with pytest.raises(InputError, match="unknown audience") as caught:
        parse_audience(name)

    assert caught.value.help is not None
    assert caught.value.help.startswith(hint)
