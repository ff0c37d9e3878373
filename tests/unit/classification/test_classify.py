import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.classification.classify import classify, unique_names, strictest_class, strictest_verdict
from demur.codes.registry import Registry
from demur.codes.vocabulary import DecisionOutput, RefusalClass, Verdict
from demur.errors import InconsistentError, InputError, InputTypeError, UnknownCodeError

CORE = Registry.load()
CODES = [entry.code for entry in CORE]
ENTRIES = st.lists(st.sampled_from(list(CORE)), max_size=5)
ORDER = ["ALLOW", "ESCALATE", "ABSTAIN", "DENY"]


def test_every_code_alone_classifies_under_every_verdict() -> None:
    for entry, verdict in itertools.product(
        CORE, [Verdict.DENY, Verdict.ESCALATE, Verdict.ABSTAIN]
    ):
        if entry.refusal_class is None:
            with pytest.raises(InconsistentError):
                classify(verdict, [entry.code])
        else:
            assert classify(verdict, [entry.code]).refusal_class is entry.refusal_class


def test_a_string_names_the_verdict_as_well() -> None:
    assert classify("DENY", ["RCE_RISK"]) == (
        RefusalClass.HARD_BLOCK,
        DecisionOutput.REFUSE_WITH_PATH,
    )


@given(ENTRIES, ENTRIES)
def test_adding_a_code_can_never_weaken_the_class(some: list[object], more: list[object]) -> None:
    """INVARIANT: adding a code can never weaken the class."""

    def rank(entries: Iterable[object]) -> int:
        found = strictest_class(entries)  # type: ignore[arg-type]
        return (
            0 if found is None else ["SOFT_BLOCK", "WORKFLOW_BLOCK", "HARD_BLOCK"].index(found) + 1
        )

    assert rank([*some, *more]) >= rank(some)


@given(st.lists(st.sampled_from(Verdict)), st.lists(st.sampled_from(Verdict)))
def test_adding_a_verdict_can_never_relax_the_result(
    some: list[Verdict], more: list[Verdict]
) -> None:
    """INVARIANT: adding a verdict can never relax the result."""
    before, after = strictest_verdict(some), strictest_verdict([*some, *more])

    assert ORDER.index(after) >= ORDER.index(before)
    assert not some or before in some


@given(st.sampled_from(Verdict), st.lists(st.sampled_from(CODES), max_size=4), st.randoms())
def test_the_same_input_classifies_the_same(
    verdict: Verdict, codes: list[str], random: object
) -> None:
    shuffled = list(codes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def result(names: list[str]) -> object:
        try:
            return classify(verdict, names, ["c"], ["m"])
        except InconsistentError:
            return None

    assert result(codes) == result(codes) == result(shuffled)


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(UnknownCodeError, match="NOPE"):
        classify("DENY", ["NOPE"])
    with pytest.raises(InputError, match="unknown verdict `MAYBE`"):
        classify("MAYBE", [])
    with pytest.raises(InputTypeError, match="not one string"):
        classify("DENY", "RCE_RISK")
    with pytest.raises(InputTypeError, match="a list of strings"):
        classify("DENY", 5)  # type: ignore[arg-type]
    with pytest.raises(InputTypeError, match="an item of codes"):
        classify("DENY", [5])  # type: ignore[list-item]


def test_names_are_kept_in_order_and_once() -> None:
    assert unique_names("codes", ["b", "a", "b"]) == ("b", "a")


def test_what_is_named_has_a_name_and_a_flag_is_a_flag() -> None:
    with pytest.raises(InputError, match="an item of missing is empty"):
        classify("ESCALATE", ["SCOPE_MISSING"], missing=[" "])
    with pytest.raises(InputTypeError, match="attempts_left must be true or false"):
        classify("DENY", ["RCE_RISK"], attempts_left="no")  # type: ignore[arg-type]
