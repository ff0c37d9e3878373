import pytest

from demur.codes.vocabulary import Surface
from demur.guards import personal_data
from demur.guards.output import OutputText, check
from demur.guards.personal_data import find_personal_data, is_published, personal_data_search
from demur.guards.secret_values import luhn_holds, mod97_holds
from demur.guards.text_search import TextMatch
from demur.model.finding import Action


def test_every_example_satisfies_its_own_arithmetic() -> None:
    assert all(map(luhn_holds, personal_data._CARDS))
    assert all(map(mod97_holds, personal_data._ACCOUNTS))
    assert all(len(number) == 9 for number in personal_data._SOCIAL)


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


SEARCH = personal_data_search(Action.ESCALATE)


def found(text: str) -> list[TextMatch]:
    return list(SEARCH.search(text, 0, True).matches)


@pytest.mark.parametrize(
    ("text", "entity", "marked"),
    [
        ("Card 4929 3813 3266 4717, soon.", "payment card", "4929 3813 3266 4717"),
        ("pay 3749-812645-37191 now", "payment card", "3749-812645-37191"),
        ("my visa: 4929381332664717", "payment card", "4929381332664717"),
        ("IBAN GB94 DEMO 2047 1583 9062 14.", "bank account", "GB94 DEMO 2047 1583 9062 14"),
        ("DE79999999990648917352", "bank account", "DE79999999990648917352"),
        ("to DE79 9999 9999 0648 9173 52 BIC X", "bank account", "DE79 9999 9999 0648 9173 52"),
        ("Her SSN is 899-71-3364.", "social security number", "899-71-3364"),
    ],
)
def test_numbers_that_check_out_ask_for_what_was_configured(
    text: str, entity: str, marked: str
) -> None:
    [seen] = found(text)

    assert (seen.code, seen.action, seen.evidence) == (
        "PII_DETECTED",
        Action.ESCALATE,
        {"entity": entity},
    )
    assert text[seen.start : seen.end] == marked
    assert marked not in seen.detail


@pytest.mark.parametrize("text", ["order 4929381332664717", "part 123-45-6789"])
def test_bare_digits_that_nothing_names_are_only_recorded(text: str) -> None:
    [seen] = found(text)

    assert seen.action is Action.WARN


@pytest.mark.parametrize(
    "text",
    [
        "Card 4111 1111 1111 1112",
        "Order 4111-1111 ships.",
        "card 0000 0000 0000 0000",
        "card 9111 1111 1111 1111",
        "v4929381332664717",
        "4929381332664717.5",
        "IBAN GB83 WEST 1234 5698 7654 32",
        "IBAN XX82 WEST 1234 5698 7654 32",
        "GB82 WEST 1234 5698 7654 3",
        "GB94 DEMO 2047 1583 9062 14A",
        "SSN 000-12-3456",
        "SSN 666-12-3456",
        "SSN 900-12-3456",
        "SSN 123-00-4567",
        "SSN 123-45-0000",
        "tel 1-899-71-3364",
        "No number here.",
    ],
)
def test_numbers_that_do_not_check_out_pass(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("gap", ["  ", "\t", "/", "_", "|", " | ", " - "])
def test_a_card_is_found_whatever_stands_between_its_groups(gap: str) -> None:
    [seen] = found(f"Pay by card {gap.join(('4929', '3813', '3266', '4717'))} today")

    assert seen.evidence == {"entity": "payment card"}


def test_a_card_behind_another_number_is_found() -> None:
    [seen] = found("card 12 4929 3813 3266 4717")

    assert seen.start == 8


def test_a_number_near_the_end_is_not_decided_yet() -> None:
    text = "Card 4929 3813 3266 4717"

    assert SEARCH.search(text, 0, False) == ((), 0)
    assert len(SEARCH.search(f"{text}{'.' * 60}", 0, False).matches) == 1


TEXT = "Pay by card 4929 3813 3266 4717."


def test_a_personal_number_is_a_finding_of_the_surface() -> None:
    [seen] = find_personal_data(TEXT, Action.ESCALATE, Surface.INPUT)

    assert seen.span is not None
    assert TEXT[seen.span.start : seen.span.end] == "4929 3813 3266 4717"
    assert (seen.surface, seen.action, seen.evidence["entity"]) == (
        "input",
        Action.ESCALATE,
        "payment card",
    )


def test_without_an_action_nothing_is_looked_for() -> None:
    assert list(find_personal_data(TEXT, None, Surface.INPUT)) == []
