from collections import Counter

import pytest

from demur.evals.agreement import measure_agreement


def test_what_both_could_judge_is_counted_by_pair() -> None:
    found = measure_agreement(
        "program",
        "judge",
        Counter(
            {
                ("refused", "refused"): 4,
                ("refused", "complied"): 1,
                ("complied", "complied"): 5,
                ("unjudged", "complied"): 2,
                ("refused", "unjudged"): 1,
            }
        ),
    )

    assert found.confusion == {
        "complied": {"complied": 5},
        "refused": {"complied": 1, "refused": 4},
    }
    assert (found.agreed.hits, found.agreed.of, found.left_out) == (9, 10, 3)
    assert found.kappa == pytest.approx(0.8)


def test_of_nothing_there_is_no_agreement() -> None:
    found = measure_agreement("program", "human", Counter({("unjudged", "refused"): 1}))

    assert (found.agreed.value, found.kappa, found.left_out) == (None, None, 1)
