from made_secrets import github_token, web_token
from toy_rules import toy_rules

from demur.guards.output.guard import OutputConfig, make_scanner
from demur.guards.output.stream_holding import OutputScanner

CONFIG = OutputConfig(rules=toy_rules("pattern: some bad words", "all: [one, two]\nwithin: 40"))
PROSE = "The quick brown fox jumps over the lazy dog. "


def fed(text: str, size: int) -> tuple[OutputScanner, list[tuple[int, int]]]:
    held = make_scanner(CONFIG)
    gaps = []
    for start in range(0, len(text), size):
        list(held.feed(text[start : start + size]))
        gaps.append((start + size, held.decided_until))
    return held, gaps


def test_prose_is_held_back_by_a_bounded_number_of_characters() -> None:
    _, gaps = fed(PROSE * 20, 32)

    assert max(seen - decided for seen, decided in gaps) <= 48 + 64 + 32


def test_a_long_token_is_held_back_from_its_beginning() -> None:
    text = PROSE * 3 + web_token(name="x" * 2000)
    held, _ = fed(text, 32)

    assert held.decided_until == len(PROSE * 3)


def test_nothing_is_decided_twice() -> None:
    held = make_scanner(CONFIG)
    text = f"{PROSE}{github_token()} {PROSE * 4}"
    first = list(held.feed(text))

    assert [finding.evidence["kind"] for finding in first] == ["github token"]
    assert list(held.feed(PROSE * 4)) == []
    assert list(held.feed("", final=True)) == []


def test_a_finding_waits_for_what_may_come_before_it() -> None:
    held = make_scanner(CONFIG)
    found = list(held.feed(f"one {PROSE * 3}"))
    found += held.feed(f"{web_token()[:40]}")
    found += held.feed(f" {github_token()} {PROSE * 6}", final=True)

    assert [finding.code for finding in found] == ["SECRET_LEAK"]


def test_old_text_is_not_kept() -> None:
    held, _ = fed(PROSE * 2000, 500)

    assert len(held._text) < 2000
