import pytest

from demur.errors import MissingExtraError
from demur.observe.extras import require_module


def test_an_extra_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(MissingExtraError, match="`no-such-client` package") as caught:
        require_module("no_such_client.part", "metrics")

    assert caught.value.help == "pip install 'demur[observe]'"


def test_an_extra_that_is_there_is_returned() -> None:
    assert require_module("json", "tests").loads("1") == 1
