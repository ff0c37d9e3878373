from pathlib import Path

from eval_rows import Scripted, a_suite

from demur.evals.answer import TargetAnswer, error_answer
from demur.evals.run_cache import AnswerCache
from demur.evals.run_manifest import RunManifest, make_manifest


def manifest(kind: str = "scripted", count: int = 3) -> RunManifest:
    target = Scripted(settings={"kind": kind})
    return make_manifest(a_suite(count), target, rows=count, seed=None, limit=None, now="now")


def test_an_answer_is_found_again_by_the_next_run(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "deep/cache", manifest())
    assert cache.get_answer("r0") is None
    cache.put_answer(TargetAnswer(row_id="r0", text="a"))
    cache.put_answer(error_answer("r1", "http", "broken"))
    cache.close()
    cache = AnswerCache(tmp_path / "deep/cache", manifest())

    assert cache.get_answer("r0") == TargetAnswer(row_id="r0", text="a")
    assert cache.get_answer("r1") is None
    cache.close()


def test_another_suite_or_target_has_a_cache_of_its_own(tmp_path: Path) -> None:
    for one in (manifest(), manifest("other"), manifest(count=4)):
        cache = AnswerCache(tmp_path, one)
        assert cache.get_answer("r0") is None
        cache.put_answer(TargetAnswer(row_id="r0", text="a"))
        cache.close()

    assert len(list(tmp_path.iterdir())) == 3


def test_lines_that_are_none_and_a_torn_one_are_passed_over(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path, manifest())
    cache.put_answer(TargetAnswer(row_id="r0", text="a"))
    cache.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(b"nonsense\n" + path.read_bytes() + b'{"row_id": "r1"')
    cache = AnswerCache(tmp_path, manifest())
    cache.put_answer(TargetAnswer(row_id="r2", text="c"))
    cache.close()
    cache = AnswerCache(tmp_path, manifest())

    assert [cache.get_answer(name) is not None for name in ("r0", "r1", "r2")] == [
        True,
        False,
        True,
    ]
    cache.close()
