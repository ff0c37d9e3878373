import json
import time
from pathlib import Path

import pytest
from commandline import demur


def decided(desk: Path) -> None:
    for sample in ("small-refund", "large-refund"):
        path = next((desk / "samples").glob(f"{sample}*.json"))
        demur("decide", str(path))


def test_one_screen_shows_the_mix_the_top_codes_and_the_newest(desk: Path) -> None:
    decided(desk)

    shown = demur("monitor", "--once").out

    assert "2 decisions" in shown
    assert "ALLOW 1 (50.0 %)" in shown
    assert "REFUND_OVER_ESCALATION_LIMIT  1" in shown
    assert "█" in shown


@pytest.mark.usefixtures("desk")
def test_before_anything_was_decided_it_says_what_to_do() -> None:
    shown = demur("monitor", "--once").out

    assert "no decisions yet" in shown
    assert "demur decide" in shown


def test_each_look_is_one_line_of_json(desk: Path) -> None:
    decided(desk)

    [line] = demur("monitor", "--once", "--json", "--hours", "2").out.splitlines()

    seen = json.loads(line)
    assert seen["decisions"] == 2
    assert seen["verdicts"] == {"ALLOW": 1, "ESCALATE": 1}
    assert sum(seen["by_hour"]) == 2
    assert len(seen["by_hour"]) == 2
    assert len(seen["newest"]) == 2


@pytest.mark.usefixtures("desk")
def test_it_looks_again_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    ended = demur("monitor", "--json", "--every", "0.5")

    assert ended.status == 0
    assert slept == [0.5, 0.5]
    assert len(ended.out.split()) > 2


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    "given", [("--hours", "0"), ("--hours", "9999"), ("--every", "0"), ("--rows", "0")]
)
def test_what_cannot_be_shown_is_refused(given: tuple[str, str]) -> None:
    ended = demur("monitor", *given)

    assert ended.status == 1
    assert given[0] in ended.err
