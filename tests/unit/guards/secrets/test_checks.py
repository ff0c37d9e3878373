import re

from made_secrets import drawn as made

from demur.guards.secrets.checks import check_random, check_test_key, check_url_password
from demur.model.finding import Action

SECRET = re.compile(r"key-(?P<secret>.*)")
ADDRESS = re.compile(r"(?P<user>\w*):(?P<secret>\w+)@(?P<host>.+)")


def match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.match(text)
    assert found is not None
    return found


def test_a_value_of_few_different_characters_was_not_drawn() -> None:
    assert check_random("", match(SECRET, "key-ababababab")) is None
    assert check_random("", match(SECRET, f"key-{made(20)}")) is Action.BLOCK


def test_what_was_not_drawn_is_no_test_key_either() -> None:
    assert check_test_key("", match(SECRET, "key-ababababab")) is None


def test_a_password_that_repeats_the_user_is_for_trying_things_out() -> None:
    assert check_url_password("", match(ADDRESS, "shopkeeper:shopkeeper@db")) is None
    assert check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@db")) is Action.BLOCK
    assert (
        check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@db.example.com"))
        is Action.WARN
    )
    for host in ("203.0.113.7", "db.corp.test", "example", "[2001:db8::5]", "DB.EXAMPLE.ORG"):
        assert (
            check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@{host}")) is Action.WARN
        )
    for host in ("203.0.114.7", "example.corp.net", "latest", "example-shop.com"):
        assert (
            check_url_password("", match(ADDRESS, f"shopkeeper:{made(12)}@{host}")) is Action.BLOCK
        )
