from demur.observe.alerts.counts import DecisionCounts, add_counts, unknown_counts
from demur.observe.alerts.rule import SelectorField, DecisionSelector

A = DecisionCounts(
    3, {"RCE_RISK": 1}, {"HARD_BLOCK": 1}, {"DENY": 1, "ALLOW": 2}, {"NEED_CONTEXT": 1}
)


def test_a_selector_chooses_by_its_field() -> None:
    assert A.count_selected(DecisionSelector(SelectorField.CODE, "RCE_RISK")) == 1
    assert A.count_selected(DecisionSelector(SelectorField.CODE, "SECRET_LEAK")) == 0
    assert A.count_selected(DecisionSelector(SelectorField.CLASS, "HARD_BLOCK")) == 1
    assert A.count_selected(DecisionSelector(SelectorField.VERDICT, "ALLOW")) == 2
    assert A.count_selected(DecisionSelector(SelectorField.OUTPUT, "NEED_CONTEXT")) == 1


def test_counts_add_up() -> None:
    both = add_counts([A, A])

    assert both.decisions == 6
    assert both.verdicts == {"DENY": 2, "ALLOW": 4}
    assert both.problem == ""


def test_what_one_source_cannot_tell_nobody_can() -> None:
    both = add_counts([A, unknown_counts("gone"), unknown_counts("gone")])

    assert both.decisions is None
    assert both.verdicts is None
    assert both.codes == {"RCE_RISK": 1}
    assert both.problem == "gone"
    assert both.count_selected(DecisionSelector(SelectorField.VERDICT, "DENY")) is None
