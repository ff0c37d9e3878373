import sys
import threading
from collections.abc import Collection, Sequence

import pytest

from demur.scan.database import (
    PatternDatabase,
    Re2Engine,
    ScanEngineType,
    SearchWindow,
    choose_engine,
    compile_searcher,
)
from demur.scan.pattern import parse_pattern

CAT, DOG = parse_pattern(r"\bcat\b"), parse_pattern("dogs?")


def spans(database: PatternDatabase, data: bytes) -> dict[int, list[tuple[int, int]]]:
    """Return where each pattern matches."""
    survey = database.find_candidates(data)
    found = {index: list(survey.find_spans(index)) for index in survey.candidates}
    return {index: places for index, places in found.items() if places}


def test_it_finds_every_pattern_and_its_spans() -> None:
    database = PatternDatabase([CAT, DOG], engine=Re2Engine)

    assert spans(database, b"cat dogs concat dog") == {0: [(0, 3)], 1: [(4, 8), (16, 19)]}
    assert spans(database, b"") == {}
    assert PatternDatabase([], engine=Re2Engine).find_candidates(b"cat").candidates == {}


def test_a_pattern_that_may_not_match_has_no_spans() -> None:
    survey = PatternDatabase([CAT, DOG], engine=Re2Engine).find_candidates(b"cat")

    assert list(survey.find_spans(1)) == []
    assert survey.find_spans(0) is survey.find_spans(0)


@pytest.mark.parametrize("offset", range(60, 72))
def test_a_match_across_chunks_is_found_once(offset: int) -> None:
    pattern = parse_pattern(r"\bfind.{0,4}me\b")
    database = PatternDatabase([pattern], engine=Re2Engine, chunk=64)
    data = b" " * offset + b"find...me" + b" " * 80 + b"find me" + b" " * 40

    assert spans(database, data) == {0: [(offset, offset + 9), (offset + 89, offset + 96)]}


def test_the_edge_of_a_chunk_is_no_edge_of_a_word() -> None:
    database = PatternDatabase([CAT], engine=Re2Engine, chunk=16)

    for shift in range(20):
        assert spans(database, b"x" * shift + b"cat" + b"x" * 20) == {}


@pytest.mark.parametrize("engine", [Re2Engine, choose_engine()])
def test_only_the_start_of_the_text_is_its_start(engine: ScanEngineType) -> None:
    pattern = parse_pattern(r"(\A|\. )cat")
    database = PatternDatabase([pattern], engine=engine, chunk=16)

    for shift in range(40):
        assert spans(database, b"x" * shift + b"cat") == ({} if shift else {0: [(0, 3)]})
        assert spans(database, b"x" * shift + b". cat") == {0: [(shift, shift + 5)]}


def test_spans_are_leftmost_and_do_not_overlap_across_chunks() -> None:
    pattern = parse_pattern("aba")
    database = PatternDatabase([pattern], engine=Re2Engine, chunk=16)

    whole = PatternDatabase([pattern], engine=Re2Engine)
    data = b"ab" * 100 + b"a"
    assert spans(database, data) == spans(whole, data)


def test_spans_of_a_long_text_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demur.scan.database._REMEMBERED", 4)
    survey = PatternDatabase([CAT], engine=Re2Engine).find_candidates(b"a cat and a cat")

    assert list(survey.find_spans(0)) == list(survey.find_spans(0)) == [(2, 5), (12, 15)]


def test_a_pattern_with_several_requirements_needs_all() -> None:
    pattern = parse_pattern(r"\bassemble\b.{0,40}\b(grenade|landmine)s?\b")
    database = PatternDatabase([pattern], engine=Re2Engine)

    assert database.find_candidates(b"assemble the shelf").candidates == {}
    assert database.find_candidates(b"a grenade").candidates == {}
    assert spans(database, b"assemble a grenade") == {0: [(0, 18)]}


def test_it_is_compiled_once_and_only_when_needed() -> None:
    built: list[Sequence[bytes]] = []

    class Counting(Re2Engine):
        def __init__(
            self, expressions: Sequence[bytes], *, presence_only: Collection[int] = ()
        ) -> None:
            built.append(expressions)
            super().__init__(expressions, presence_only=presence_only)

    database = PatternDatabase([CAT], engine=Counting)
    assert built == []
    barrier = threading.Barrier(4)

    def use() -> None:
        barrier.wait()
        database.find_candidates(b"cat")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(built) == 1


def test_hyperscan_is_used_where_it_is_installed() -> None:
    pytest.importorskip("hyperscan")

    assert PatternDatabase([CAT]).engine.name == "hyperscan"


def test_without_hyperscan_re2_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demur.scan.hyperscan_engine", None)

    assert choose_engine() is Re2Engine
    assert PatternDatabase([CAT]).engine.name == "re2"


def test_where_nobody_asks_for_places_spans_are_found_all_the_same() -> None:
    database = PatternDatabase([CAT, DOG], presence_only=True)

    assert spans(database, b"cat dogs concat dog") == {0: [(0, 3)], 1: [(4, 8), (16, 19)]}


@pytest.mark.parametrize("chunk", [16, 1 << 14])
@pytest.mark.parametrize("apart", [1, 3, 40, 400])
def test_many_matches_are_found_wherever_they_stand(chunk: int, apart: int) -> None:
    database = PatternDatabase([CAT], chunk=chunk)
    step = 3 + apart

    found = spans(database, (b"cat" + b" " * apart) * 30)
    assert found == {0: [(place * step, place * step + 3) for place in range(30)]}


def test_it_says_which_expressions_match_in_order() -> None:
    engine = Re2Engine([b"cat", rb"\bdog\b", b"ox"])

    assert sorted(engine.find_matching(b"an ox and a cat, dogged")) == [0, 2]
    assert engine.find_matching(b"") == {}


def test_no_expressions_match_nothing() -> None:
    assert Re2Engine([]).find_matching(b"cat") == {}


def test_a_match_is_the_leftmost_and_the_longest() -> None:
    found = compile_searcher(b"(?:ab|abc){1,2}").search(b"xabcab")

    assert found.span() == (1, 6)


def test_bytes_of_any_value_are_bytes() -> None:
    assert compile_searcher(rb"[\x80-\xff]{2,2}").search(b"a\xff\x80").span() == (1, 3)


CAT_window = parse_pattern(r"\bcat\b")
TEXT = b"cat concat cat cats cat"


def test_only_matches_that_begin_in_the_window_are_found() -> None:
    assert list(SearchWindow(TEXT, -5, 99).find_spans(CAT_window)) == [(0, 3), (11, 14), (20, 23)]
    assert list(SearchWindow(TEXT, 1, 20).find_spans(CAT_window)) == [(11, 14)]
    assert list(SearchWindow(TEXT, 11, 12).find_spans(CAT_window)) == [(11, 14)]
    assert list(SearchWindow(TEXT, 12, 20).find_spans(CAT_window)) == []


def test_the_text_around_the_stretch_decides_where_words_end() -> None:
    assert not SearchWindow(TEXT, 7, 10).has_match(CAT_window)
    assert not SearchWindow(TEXT, 15, 18).has_match(CAT_window)
    assert SearchWindow(TEXT, 20, 21).has_match(CAT_window)
