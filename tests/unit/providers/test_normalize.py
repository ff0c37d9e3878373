from types import SimpleNamespace
from typing import Any

import pytest

from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass
from demur.providers import normalize as module
from demur.providers.normalize import normalize, read_signal
from demur.providers.readers import READERS, load_readers
from demur.providers.signal import SignalOutcome, Signal, strongest_signal

DECLINED = {"choices": [{"message": {"refusal": "No."}, "finish_reason": "stop"}]}
FILTERED = {"error": {"code": "content_filter", "message": "x"}}


class ContentFilterFinishReasonError(Exception):
    def __init__(self, completion: Any = None) -> None:
        super().__init__("the answer was filtered")
        self.completion = completion


class ApiError(Exception):
    def __init__(self, body: Any) -> None:
        super().__init__("x")
        self.status_code = 400
        self.body = body


def code_of(given: Any) -> str | None:
    refusal = normalize(given)
    return refusal.code if refusal else None


def test_the_exception_of_the_parsing_helper_is_a_refusal() -> None:
    assert code_of(ContentFilterFinishReasonError()) == "FILTERED_UNSPECIFIED"
    assert code_of(ContentFilterFinishReasonError(SimpleNamespace(**DECLINED))) == "MODEL_DECLINED"


def test_what_lies_behind_an_exception_is_read() -> None:
    outer = RuntimeError("the agent failed")
    outer.__cause__ = ApiError(FILTERED)
    assert code_of(outer) == "FILTERED_UNSPECIFIED"
    other = RuntimeError("while handling")
    other.__context__ = ApiError(FILTERED)
    assert code_of(other) == "FILTERED_UNSPECIFIED"
    assert code_of(ExceptionGroup("several", [ValueError(), ApiError(FILTERED)])) is not None


def test_a_context_that_was_put_aside_does_not_count() -> None:
    error = RuntimeError("something else")
    error.__context__ = ApiError(FILTERED)
    error.__suppress_context__ = True
    assert normalize(error) is None


def test_exceptions_in_a_circle_end() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert normalize(one) is None


def test_an_error_nobody_listed_is_an_unexplained_filter() -> None:
    refusal = normalize(ApiError({"error": {"code": "lunar_policy", "message": "m"}}))
    assert refusal
    assert refusal.source
    assert (refusal.code, refusal.source.name) == ("FILTERED_UNSPECIFIED", "unlisted")


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_statuses_are_ordinary_failures(status: int) -> None:
    assert normalize((status, {"error": {"code": "lunar_policy"}})) is None


@pytest.mark.parametrize("code", ["permission_denied", "forbidden", "invalid_request_error"])
def test_ordinary_codes_are_ordinary_failures(code: str) -> None:
    assert normalize((403, {"error": {"code": code, "message": "safety policy blocked"}})) is None


def test_a_refusal_beats_what_broke() -> None:
    both = {
        **DECLINED,
        "prompt_filter_results": [
            {"content_filter_results": {"error": {"code": "content_filter_error"}}}
        ],
    }
    assert code_of(both) == "MODEL_DECLINED"


def test_what_was_only_seen_is_a_signal_and_no_refusal() -> None:
    given = {"results": [{"flagged": True, "categories": {"violence": True}}]}
    signal = read_signal(given)
    assert signal
    assert (signal.outcome, signal.code) == (SignalOutcome.DETECT_ONLY, "CONTENT_VIOLENCE")
    assert normalize(given) is None


def test_a_long_native_value_is_cut_and_says_so() -> None:
    refusal = normalize({"choices": [{"message": {"refusal": "no " * 9000}}]})
    assert refusal
    assert refusal.source
    assert len(refusal.source.native) == 4000
    assert refusal.evidence["native_cut"] is True


def test_a_given_registry_is_named() -> None:
    registry = Registry.load()
    refusal = normalize(DECLINED, registry=registry)
    assert refusal
    assert refusal.registry == registry.label


def test_a_signal_without_a_path_is_named_by_its_source() -> None:
    refusal = normalize((446, {}))
    assert refusal
    assert refusal.detail == "HTTP status: 446"


class _BrokenReader:
    NAME = "broken"

    def read(self, _shape: Any) -> Signal | None:
        raise LookupError


def test_a_reader_that_breaks_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "load_readers", lambda: (_BrokenReader(), *load_readers()))
    assert code_of(DECLINED) == "MODEL_DECLINED"
    refusal = normalize({"choices": [{"finish_reason": "stop"}]})
    assert refusal
    assert (refusal.code, refusal.decided) == ("INTERNAL_ERROR", False)
    assert "LookupError" in refusal.detail


def test_every_reader_is_a_module_with_a_name() -> None:
    assert len(load_readers()) == len(READERS) == len(set(READERS))
    assert all(reader.NAME and callable(reader.read) for reader in load_readers())


class SessionTurnError:
    def __init__(self) -> None:
        self.code = "cyber_policy"
        self.message = "m"


def test_an_error_of_a_session_stands_alone() -> None:
    assert code_of(SessionTurnError()) == "CONTENT_CYBER"


def test_a_moderation_category_is_known_by_the_name_of_its_attribute() -> None:
    signal = read_signal({"results": [{"categories": {"self_harm_intent": True}}]})
    assert signal
    assert signal.code == "CONTENT_SELF_HARM"


def test_among_equals_the_first_signal_wins() -> None:
    soft = Signal("a", "p", 1, "MODEL_DECLINED", refusal_class=RefusalClass.SOFT_BLOCK)
    hard = soft._replace(name="h", refusal_class=RefusalClass.HARD_BLOCK)
    assert strongest_signal([soft, soft._replace(name="b"), None]) == soft
    assert strongest_signal([soft, hard]) == hard
    assert strongest_signal([hard._replace(outcome=SignalOutcome.NOT_JUDGED), soft]) == soft
    assert strongest_signal([]) is None


def shared_in_itself() -> dict[str, Any]:
    whole: dict[str, Any] = {}
    many = [whole] * 3000
    whole.update(message=whole, content=many, choices=many, output=many, delta=whole)
    return whole


class Endless(list[Any]):
    def __iter__(self) -> Any:
        while True:
            yield self[0]


class BreaksOff(list[Any]):
    def __iter__(self) -> Any:
        yield self[0]
        raise RuntimeError


@pytest.mark.parametrize(
    "given",
    [
        shared_in_itself(),
        Endless([{"delta": {}}]),
        {"choices": [{"finish_reason": "x" * 1_000_000}] * 10_000},
        '{"a": 1}\n' * 20_000,
    ],
    ids=["shared", "endless", "long words", "lines"],
)
def test_what_cannot_be_read_to_its_end_was_not_judged(given: Any) -> None:
    refusal = normalize(given)

    assert refusal
    assert (refusal.code, refusal.decided) == ("INTERNAL_ERROR", False)


def test_a_list_that_breaks_off_gives_what_was_there() -> None:
    assert code_of(BreaksOff([DECLINED])) == "MODEL_DECLINED"
    assert code_of(BreaksOff([{}])) == "INTERNAL_ERROR"
    assert code_of(Endless([None])) == "INTERNAL_ERROR"


def test_a_refusal_counts_even_where_the_rest_cannot_be_read() -> None:
    assert code_of([DECLINED, shared_in_itself()]) == "MODEL_DECLINED"
    assert code_of({**shared_in_itself(), "choices": DECLINED["choices"]}) == "MODEL_DECLINED"


@pytest.mark.parametrize("text", ["{\n" * 500_000, "{}\n" * 50_000, "a\n" * 500_000])
def test_long_text_that_says_nothing_is_no_refusal(text: str) -> None:
    assert normalize(text) is None
