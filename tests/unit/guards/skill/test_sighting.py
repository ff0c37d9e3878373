import pytest

from demur.guards.skill.sighting import soften_action
from demur.model.finding import Action


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (Action.BLOCK, Action.ESCALATE),
        (Action.ESCALATE, Action.WARN),
        (Action.WARN, Action.WARN),
    ],
)
def test_an_action_one_step_down(action: Action, wanted: Action) -> None:
    assert soften_action(action) is wanted
