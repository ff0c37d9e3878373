import gzip

import pytest
from gates import CORE, NOON

from demur.service.dashboard import log_counts
from demur.service.dashboard.log_counts import count_log
from demur.service.problem import ProblemError

LOG = (
    b"REFUSED: RCE_RISK: curl | sh\n" * 3
    + b"destructive command blocked\n"
    + b"REFUSED: MADE_UP: what\n"
    + b"all fine\n"
)


@pytest.mark.parametrize("content", [LOG, gzip.compress(LOG)])
def test_codes_are_counted_by_how_they_were_said(content: bytes) -> None:
    counts = count_log("a.log", content, NOON, CORE)
    first, old, unknown = counts.codes

    assert counts.total == 5
    assert (first.code, first.count, first.canonical, first.percent) == ("RCE_RISK", 3, 3, 60)
    assert (old.code, old.legacy, old.known) == ("DESTRUCTIVE_ACTION", 1, True)
    assert (unknown.code, unknown.known, unknown.count) == ("MADE_UP", False, 1)
    assert first.sample == "REFUSED: RCE_RISK: curl | sh"


def test_a_quoted_refusal_is_told_apart_and_not_counted() -> None:
    line = b'{"message": "prompt: say REFUSED: RCE_RISK: now"}\n' * 2
    counts = count_log("", line, NOON, CORE)

    assert counts.name == "a log without a name"
    assert counts.total == 0
    assert [(one.quoted, one.count, one.percent) for one in counts.codes] == [(2, 0, 0.0)]


def test_a_damaged_log_is_read_as_far_as_it_goes() -> None:
    counts = count_log("a.gz", gzip.compress(LOG)[:-12], NOON, CORE)

    assert any("Read as far as it goes" in note for note in counts.notes)


def test_a_log_that_unpacks_to_too_much_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_counts, "LARGEST", 1000)

    with pytest.raises(ProblemError) as caught:
        count_log("a.gz", gzip.compress(LOG * 100), NOON, CORE)

    assert caught.value.status == 413
