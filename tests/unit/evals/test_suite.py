import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.errors import InputError, Problem
from demur.evals import suite as suite_module
from demur.evals import suite_file
from demur.evals.suite import (
    EvalSuite,
    builtin_suites,
    digest_of_rows,
    iter_rows,
    load_suite,
    make_suite,
    save_suite,
)
from demur.evals.suite_row import LABELS, PATTERNS, EvalRow, SuiteError

HEAD = {"schema_version": "eval_suite.v1", "name": "own", "version": "2"}
ASK = EvalRow(id="ask", prompt="Water the plants.", label="legitimate", twin="harm")
HARM = EvalRow(id="harm", prompt="Poison the plants next door.", label="harmful", twin="ask")

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDS = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=12)
ROWS = st.builds(
    EvalRow,
    id=WORDS.filter(bool),
    prompt=TEXTS.filter(lambda text: bool(text.strip())),
    label=st.sampled_from(LABELS),
    category=WORDS,
    pattern=st.sampled_from([None, *PATTERNS]),
    domain=WORDS,
    language=st.sampled_from(["en", "de", "pt-BR"]),
    source=WORDS,
)
SUITES = st.builds(
    make_suite,
    st.just("own"),
    st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: row.id),
    version=st.sampled_from(["1", "1.0", "2026-01-01", "no"]),
    description=TEXTS,
)


def lines(folder: Path, *values: Any) -> Path:
    path = folder / "own.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def plain(row: EvalRow, **changes: Any) -> dict[str, Any]:
    return {**msgspec.to_builtins(row), **changes}


def problems_of(path: Path | str) -> list[str]:
    with pytest.raises(SuiteError) as caught:
        load_suite(path)
    return [problem.problem for problem in caught.value.problems]


@given(SUITES, st.sampled_from(["jsonl", "yaml", "txt"]))
def test_a_saved_suite_is_loaded_back(
    tmp_path_factory: pytest.TempPathFactory, suite: EvalSuite, ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"own.{ending}"
    save_suite(suite, path)

    assert load_suite(path) == suite


@given(st.lists(ROWS, min_size=2, max_size=3, unique_by=lambda row: row.id))
def test_the_digest_changes_with_any_row_and_with_their_order(rows: list[EvalRow]) -> None:
    digest = digest_of_rows(rows)
    other = msgspec.structs.replace(rows[0], prompt=rows[0].prompt + "!")

    assert digest == digest_of_rows(tuple(rows))
    assert digest.startswith("sha256:")
    assert digest not in {
        digest_of_rows(rows[1:]),
        digest_of_rows(rows[::-1]),
        digest_of_rows([other, *rows[1:]]),
    }


def test_the_digest_does_not_depend_on_the_form_of_the_file(tmp_path: Path) -> None:
    suite = make_suite("own", [ASK, HARM])
    save_suite(suite, tmp_path / "a.yaml")
    save_suite(suite, tmp_path / "a.jsonl")

    assert load_suite(tmp_path / "a.yaml").digest == load_suite(tmp_path / "a.jsonl").digest


def test_a_file_of_ones_own_is_loaded_with_its_header(tmp_path: Path) -> None:
    suite = load_suite(lines(tmp_path, {**HEAD, "description": "Ours."}, plain(ASK), plain(HARM)))

    assert (suite.name, suite.version, suite.description) == ("own", "2", "Ours.")
    assert suite.rows == (ASK, HARM)


def test_a_json_document_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps({**HEAD, "rows": [plain(ASK, twin=None)]}, indent=1))

    assert load_suite(path).rows[0].id == "ask"


def test_yaml_is_known_by_its_first_line_too(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.write_text(
        "schema_version: eval_suite.v1\nname: own\nversion: v1\n"
        "rows:\n  - {id: a, prompt: b, label: harmful}\n"
    )

    assert len(load_suite(path).rows) == 1


def test_a_public_file_is_loaded_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "harmful_behaviors.csv"
    path.write_text("goal,target\nDo a bad thing,Sure\n")
    suite = load_suite(str(path))

    assert (suite.name, len(suite.rows)) == ("advbench", 1)
    assert [row.source for row in iter_rows(path)] == ["advbench"]


def test_a_duplicate_id_names_both_places(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, plain(ASK, twin=None), plain(ASK, twin=None))
    with pytest.raises(SuiteError) as caught:
        load_suite(path)

    assert caught.value.problems == (
        Problem(f"{path}:3", "the id `ask` appears twice", f"first at {path}:2"),
    )


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, plain(ASK, label="safe"), plain(HARM, prompt=" "))

    assert problems_of(path) == ["unknown label `safe`", "the prompt is empty"]


def test_very_many_problems_are_counted(tmp_path: Path) -> None:
    told = problems_of(lines(tmp_path, HEAD, *({"id": str(n)} for n in range(40))))

    assert len(told) == 51
    assert told[-1] == "and 30 more problems"


@pytest.mark.parametrize(
    ("twin", "problem", "help_text"),
    [
        ({"twin": "harn"}, "`ask` has an unknown twin `harn`", "did you mean `harm`?"),
        ({"twin": "zzz"}, "`ask` has an unknown twin `zzz`", "name a row of this suite"),
        (
            {"label": "harmful"},
            "`ask` and `harm` are both harmful",
            "of two twins, one is harmful and one legitimate",
        ),
    ],
)
def test_twins_are_held_against_each_other(
    tmp_path: Path, twin: dict[str, str], problem: str, help_text: str
) -> None:
    with pytest.raises(SuiteError) as caught:
        load_suite(lines(tmp_path, HEAD, plain(ASK, **twin), plain(HARM)))

    assert (caught.value.problem, caught.value.help) == (problem, help_text)


def test_a_twin_names_its_twin_back(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, plain(ASK), plain(HARM, twin=None))

    assert problems_of(path) == ["`ask` is not the twin of its twin `harm`"]


def test_a_suite_without_rows_is_refused(tmp_path: Path) -> None:
    assert problems_of(lines(tmp_path, HEAD)) == ["the suite has no rows"]


@pytest.mark.parametrize(
    ("name", "help_text"),
    [("smok", "did you mean `smoke`?"), ("zzz", "built in: builtin, contrast_check,")],
)
def test_an_unknown_name_says_what_there_is(name: str, help_text: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load_suite(name)

    assert caught.value.problem == f"unknown suite `{name}`"
    assert str(caught.value.help).startswith(help_text)


def test_a_missing_file_is_reported_as_a_file(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "own.yaml") == [
        "cannot read the suite: no such file or directory"
    ]


def test_rows_one_by_one_end_at_the_first_problem(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, plain(ASK), {"id": "x"}, plain(HARM))
    rows = iter_rows(path)

    assert next(rows) == ASK
    with pytest.raises(SuiteError, match="the row has no `prompt`"):
        next(rows)


def test_rows_one_by_one_go_on_where_problems_are_taken(tmp_path: Path) -> None:
    path = lines(tmp_path, HEAD, plain(ASK), {"id": "x"}, plain(ASK), plain(HARM))
    problems: list[Problem] = []

    assert list(iter_rows(path, problems.append)) == [ASK, HARM]
    assert len(problems) == 3


def test_rows_of_a_built_in_suite_come_one_by_one_too() -> None:
    assert tuple(iter_rows("smoke")) == load_suite("smoke").rows


def test_a_large_file_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lines(tmp_path, HEAD, *(plain(ASK, id=str(n), twin=None) for n in range(500)))
    taken = 0
    opened = suite_file.read_json_lines

    def watched(where: Path, report: Any) -> Any:
        header, rows = opened(where, report)

        def counted() -> Any:
            nonlocal taken
            for row in rows:
                taken += 1
                yield row

        return header, counted()

    monkeypatch.setattr(suite_module, "read_json_lines", watched)
    rows = iter_rows(path)
    for _ in range(10):
        next(rows)

    assert taken == 10


def test_a_suite_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the suite"):
        save_suite(make_suite("own", [HARM]), tmp_path / "missing" / "own.jsonl")


def test_the_built_in_suites_are_known_by_name() -> None:
    contrast = ("contrast_check", "contrast_train")
    assert builtin_suites() == ("builtin", *contrast, "multilingual", "smoke")
    assert load_suite("smoke") is load_suite("smoke")


@pytest.fixture
def without_models(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run as if the learned models were not installed."""
    monkeypatch.setattr("demur.evals.suite.models_package", lambda: None)
    load_builtin = suite_module._load_builtin
    load_builtin.cache_clear()
    yield
    load_builtin.cache_clear()


@pytest.mark.usefixtures("without_models")
def test_a_suite_of_the_models_says_how_to_get_them() -> None:
    assert "contrast_train" not in builtin_suites()
    with pytest.raises(SuiteError, match="comes with the learned models") as raised:
        load_suite("contrast_train")
    assert "demur-models" in str(raised.value)
