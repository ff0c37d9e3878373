import pytest

from demur.guards.output.guard import OutputText, check
from demur.guards.secrets import published
from demur.guards.secrets.checksums import luhn_holds, mod97_holds
from demur.guards.secrets.published import is_published
from demur.model.finding import Action


def test_every_example_satisfies_its_own_arithmetic() -> None:
    assert all(map(luhn_holds, published._CARDS))
    assert all(map(mod97_holds, published._ACCOUNTS))
    assert all(len(number) == 9 for number in published._SOCIAL)


@pytest.mark.parametrize(
    "answer",
    [
        "Use the test card 4242 4242 4242 4242 with any expiry date.",
        "A declined card for tests: card 4000 0000 0000 0002.",
        "The card number 3782-822463-10005 is for tests.",
        "An IBAN looks like DE89 3704 0044 0532 0130 00.",
        "IBAN GB29NWBK60161331926819 is the registry's example.",
        "The social security number 078-05-1120 was printed on a wallet insert.",
        "An SSN such as 111-11-1111 is refused by the form.",
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "Connect to postgres://app:T7wq9Lm2Zx@192.0.2.10/main",
        "Connect to postgres://app:T7wq9Lm2Zx@db.example.com/main",
        "Connect to postgres://app:T7wq9Lm2Zx@db.corp.test/main",
        "Write to jane.doe@example.com about it.",
    ],
)
def test_published_examples_are_at_most_recorded(answer: str) -> None:
    assert {found.action for found in check(OutputText(answer))} <= {Action.WARN}


@pytest.mark.parametrize(
    "answer",
    [
        "Her card is 4929 3813 3266 4717.",
        "Pay to DE79 9999 9999 0648 9173 52.",
        "Her social security number is 899-71-3364.",
        "Connect to postgres://app:T7wq9Lm2Zx@db.corp.example.attacker.net/main",
        "Connect to postgres://app:T7wq9Lm2Zx@db.corp.net/main",
    ],
)
def test_others_are_not(answer: str) -> None:
    assert any(found.action is not Action.WARN for found in check(OutputText(answer)))


def test_the_finding_says_that_it_is_an_example() -> None:
    [found] = check(OutputText("My card is 4111 1111 1111 1111."))

    assert found.evidence == {"entity": "payment card", "published": True}
    assert not is_published("bank account", "GB94DEMO20471583906214")
