from demur.codes.vocabulary import Surface
from demur.guards.secrets.personal_text import find_personal_data
from demur.model.finding import Action

TEXT = "Pay by card 4929 3813 3266 4717."


def test_a_number_that_stands_for_a_person_is_a_finding_of_the_surface() -> None:
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
