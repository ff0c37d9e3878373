import pytest

from demur.guards.secrets.personal_data import personal_data_search
from demur.guards.text_rules.seeking import TextMatch
from demur.model.finding import Action

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


def test_a_card_behind_another_number_is_found() -> None:
    [seen] = found("card 12 4929 3813 3266 4717")

    assert seen.start == 8


def test_a_number_near_the_end_is_not_decided_yet() -> None:
    text = "Card 4929 3813 3266 4717"

    assert SEARCH.search(text, 0, False) == ((), 0)
    assert len(SEARCH.search(f"{text}{'.' * 60}", 0, False).matches) == 1
