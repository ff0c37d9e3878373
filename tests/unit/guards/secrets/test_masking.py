from demur.guards.secrets.masking import mask_secret, secret_match
from demur.model.finding import Action


def test_of_a_long_secret_four_characters_are_shown() -> None:
    assert mask_secret("abcdefghijklmnop") == "abcd… (16 characters)"


def test_of_a_short_secret_nothing_is_shown() -> None:
    assert mask_secret("abcdefgh") == "… (8 characters)"


def test_a_sighting_covers_the_secret() -> None:
    seen = secret_match("some key", "x" * 20, 7, Action.WARN)

    assert (seen.start, seen.end, seen.code) == (7, 27, "SECRET_LEAK")
    assert seen.detail == "some key xxxx… (20 characters)"
    assert seen.evidence == {"kind": "some key"}
