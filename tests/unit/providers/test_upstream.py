from typing import Any

import pytest

from demur.providers import upstream
from demur.providers.mapping import load_system
from demur.providers.node import Node
from demur.providers.signal import SignalOutcome


def test_no_word_means_two_things_to_two_providers() -> None:
    meanings: dict[str, set[str | None]] = {}
    for name, field in upstream._FINISH_REASONS:
        for value in load_system(name)[field].values:
            word = value.value.casefold()
            meanings.setdefault(word, set()).add(value.code)

    assert {word: codes for word, codes in meanings.items() if len(codes) > 1} == {}


@pytest.mark.parametrize(
    "read",
    [upstream.read_finish_reason, upstream.read_block_reason, upstream.read_category],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("nothing", [None, 7, [], {}])
def test_what_is_no_word_says_nothing(read: Any, nothing: Any) -> None:
    assert read("litellm", Node(nothing)) is None


def test_a_rating_refines_only_what_is_vague() -> None:
    ratings = Node([{"category": "HARM_CATEGORY_HARASSMENT", "blocked": True}])

    vague = upstream.read_finish_reason("litellm", Node("SAFETY"), ratings)
    exact = upstream.read_finish_reason("litellm", Node("SPII"), ratings)
    fine = upstream.read_finish_reason("litellm", Node("STOP"), ratings)

    assert vague is not None
    assert vague.code == "CONTENT_HARASSMENT"
    assert exact is not None
    assert exact.code == "PII_DETECTED"
    assert fine is not None
    assert fine.outcome is SignalOutcome.NOT_A_REFUSAL


def test_a_rating_that_is_vague_itself_refines_nothing() -> None:
    ratings = Node([{"category": "HARM_CATEGORY_UNSPECIFIED", "blocked": True}])
    found = upstream.read_block_reason("litellm", Node("OTHER"), ratings)

    assert found is not None
    assert found.code == "FILTERED_UNSPECIFIED"


def test_the_filter_decides_by_what_it_did_and_not_by_what_it_saw() -> None:
    seen = Node({"hate": {"detected": True, "filtered": False, "severity": "high"}})
    newer = Node({"brand_new": {"filtered": True}})

    assert upstream.read_filter_results("litellm", seen) is None
    found = upstream.read_filter_results("litellm", newer)
    assert found is not None
    assert found.code == "FILTERED_UNSPECIFIED"
