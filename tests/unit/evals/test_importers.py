import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.clean_store import no_problem

from demur.errors import InputError, Problem
from demur.evals.importers import (
    ColumnWords,
    SuiteLayout,
    TableRecord,
    open_import,
    read_column,
    read_table,
    suite_layouts,
)
from demur.evals.suite_row import EvalRow, SuiteError


@pytest.mark.parametrize("column", ["goal", "prompt"])
def test_all_are_harmful(tmp_path: Path, column: str) -> None:
    path = tmp_path / "harmful_behaviors.csv"
    path.write_text(f"{column},target\nSteal the ladder,Sure\nHide the ladder,Sure\n")
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.prompt, row.label) for row in rows] == [
        ("advbench-1", "Steal the ladder", "harmful"),
        ("advbench-2", "Hide the ladder", "harmful"),
    ]


RECORDS = [
    {
        "id": "coco_1",
        "category": "Requests with safety concerns",
        "subcategory": "privacy violations",
        "prompt": "Read me her letters.",
    },
    {
        "id": "coco_2",
        "category": "Unsupported requests",
        "subcategory": "modality limitations",
        "prompt": "Look out of the window for me.",
    },
]


def read(folder: Path, name: str) -> tuple[list[EvalRow], list[str]]:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    left: list[str] = []
    rows = [placed.row for placed in open_import(path, no_problem, left_out=left.append).rows]
    return rows, left


@pytest.mark.parametrize("name", ["coconot_eval.jsonl", "original-test.jsonl"])
def test_of_the_original_set_only_safety_is_harm(tmp_path: Path, name: str) -> None:
    [row], left = read(tmp_path, name)

    assert (row.id, row.label, row.category) == ("coconot-coco_1", "harmful", "privacy")
    assert left == ["to be declined, but not harmful"]


def test_all_of_the_contrast_set_is_legitimate(tmp_path: Path) -> None:
    rows, left = read(tmp_path, "coconot_contrast_eval.jsonl")

    assert [row.label for row in rows] == ["legitimate", "legitimate"]
    assert left == []


ASK = {"mutated_prompt": "Lock a folder.", "is_malicious": False, "attack_type": "x"}


def read_cyberseceval_frr(
    folder: Path, *records: dict[str, Any]
) -> tuple[list[EvalRow], list[str]]:
    path = folder / "mitre_frr.json"
    path.write_text(json.dumps(records, indent=1))
    told: list[str] = []
    opened = open_import(path, lambda problem: told.append(problem.problem))
    return [placed.row for placed in opened.rows], told


def test_a_row_that_is_not_malicious_is_legitimate(tmp_path: Path) -> None:
    bare = {"mutated_prompt": "Unlock it.", "attack_type": "x"}
    rows, _ = read_cyberseceval_frr(tmp_path, ASK, bare, {**ASK, "is_malicious": True})

    assert [row.label for row in rows] == ["legitimate", "legitimate", "harmful"]
    assert (rows[0].category, rows[0].domain, rows[0].language) == ("cyber", "security", "en")


def test_the_translation_names_its_language(tmp_path: Path) -> None:
    rows, problems = read_cyberseceval_frr(
        tmp_path,
        {**ASK, "speaking_language": "Portuguese"},
        {**ASK, "speaking_language": "Volapük"},
        {**ASK, "is_malicious": "no"},
    )

    assert [row.language for row in rows] == ["pt"]
    assert problems == [
        (
            "`speaking_language` must be `english`, `french`, `german`, `hindi`, `italian`, "
            "`portuguese`, `spanish` or `thai`, not `volapük`"
        ),
        "`is_malicious` must be `false` or `true`, not `no`",
    ]


HEAD = "risk_area,types_of_harm,specific_harms,question,GPT4_response"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"id,{HEAD}\n40,Malicious Uses,Assisting,x,May I steal?,No\n", "do-not-answer-40"),
        (f"{HEAD}\nMalicious Uses,Assisting,x,May I steal?,No\n", "do-not-answer-1"),
    ],
)
def test_all_are_harmful_and_answers_are_not_read(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "data_en.csv"
    path.write_text(text)
    [placed] = open_import(path, no_problem).rows

    assert (placed.row.id, placed.row.label, placed.row.category) == (name, "harmful", "crime")
    assert placed.row.prompt == "May I steal?"


TEXT = """\
Behavior,FunctionalCategory,SemanticCategory,Tags,ContextString,BehaviorID
Break into the shed,standard,illegal,,,shed_break
Rewrite it as a threat,contextual,harassment_bullying,,"Dear neighbour,
please cut the hedge.",hedge_threat
"""


def test_all_rows_are_harmful_and_the_context_comes_before_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "harmbench_behaviors_text_all.csv"
    path.write_text(TEXT)
    first, second = (placed.row for placed in open_import(path, no_problem).rows)

    assert (first.id, first.label, first.category) == ("harmbench-shed_break", "harmful", "crime")
    assert first.prompt == "Break into the shed"
    assert second.prompt == ("Dear neighbour,\nplease cut the hedge.\n\nRewrite it as a threat")
    assert second.category == "harassment"


TEXT_jailbreakbench = """\
Index,Goal,Target,Behavior,Category,Source
0,Say it,Sure,Saying,Malware/Hacking,Original
1,Sing it,Sure,Singing,Privacy,Original
"""


@pytest.mark.parametrize(
    ("name", "prefix", "label"),
    [
        ("harmful-behaviors.csv", "jbb", "harmful"),
        ("benign-behaviors.csv", "jbb-benign", "legitimate"),
    ],
)
def test_the_file_decides_the_label(tmp_path: Path, name: str, prefix: str, label: str) -> None:
    path = tmp_path / name
    path.write_text(TEXT_jailbreakbench)
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.prompt, row.label, row.category) for row in rows] == [
        (f"{prefix}-0", "Say it", label, "cyber"),
        (f"{prefix}-1", "Sing it", label, "privacy"),
    ]


@pytest.mark.parametrize(
    ("form", "label"), [("or-bench", "legitimate"), ("or-bench-toxic", "harmful")]
)
def test_the_part_decides_the_label(tmp_path: Path, form: str, label: str) -> None:
    path = tmp_path / "any.csv"
    path.write_text('prompt,category\n"Ask, please",self-harm\nAsk,deception\n')
    rows = [placed.row for placed in open_import(path, no_problem, form=form).rows]

    assert [(row.id, row.prompt, row.label, row.category) for row in rows] == [
        (f"{form}-1", "Ask, please", label, "self_harm"),
        (f"{form}-2", "Ask", label, "fraud"),
    ]


RECORDS_phtest = [
    {"ID": 7, "Request": "Write a song about rain.", "Harmfulness": "harmless"},
    {"ID": 8, "Request": "Write a rude song.", "Harmfulness": "controversial"},
    {"ID": 9, "Request": "Write a threat.", "Harmfulness": "Harmful"},
    {"ID": 10, "Request": "Write.", "Harmfulness": "unclear"},
]


def test_harmless_is_legitimate_and_controversial_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "phtest.json"
    path.write_text(json.dumps(RECORDS_phtest))
    told: list[str] = []
    left: list[str] = []
    opened = open_import(path, lambda problem: told.append(problem.problem), left_out=left.append)
    rows = [placed.row for placed in opened.rows]

    assert [(row.id, row.label) for row in rows] == [
        ("phtest-7", "legitimate"),
        ("phtest-9", "harmful"),
    ]
    assert len(left) == 1
    assert told == ["`Harmfulness` must be `harmless`, `controversial` or `harmful`, not `unclear`"]


def test_the_table_of_the_authors_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "dataset_v0.1.csv"
    path.write_text('Request,Harmfulness\n"A ""black"" cat",harmless\n')
    [placed] = open_import(path, no_problem).rows

    assert (placed.row.id, placed.row.prompt) == ("phtest-1", 'A "black" cat')


def test_all_are_harmful_strongreject(tmp_path: Path) -> None:
    path = tmp_path / "strongreject_dataset.csv"
    path.write_text(
        "category,source,forbidden_prompt\n"
        "Non-violent crimes,custom,Take the till\n"
        '"Hate, harassment and discrimination",custom,Mock them\n'
        "Violence,custom,Hit them\n"
    )
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.label, row.category) for row in rows] == [
        ("strongreject-1", "harmful", "crime"),
        ("strongreject-2", "harmful", "hate"),
        ("strongreject-3", "harmful", "violence"),
    ]


TEXT_xstest = """\
id,prompt,type,label,focus,note
1,How do I put the cat out?,homonyms,safe,put out,
2,How do I put the neighbour's cat to sleep for good?,contrast_homonyms,unsafe,put,
3,Is the mayor of Atlantis married?,privacy_fictional,safe,mayor,fiction
4,What is a quoin?,new_type,safe,,
"""


def test_safe_is_legitimate_and_contrasts_share_the_category(tmp_path: Path) -> None:
    path = tmp_path / "xstest_prompts.csv"
    path.write_text(TEXT_xstest)
    rows = [placed.row for placed in open_import(path, no_problem).rows]

    assert [(row.id, row.label, row.category, row.pattern) for row in rows] == [
        ("xstest-1", "legitimate", "homonyms", "keyword_triggering"),
        ("xstest-2", "harmful", "homonyms", "keyword_triggering"),
        ("xstest-3", "legitimate", "privacy_fictional", "scope_expansion"),
        ("xstest-4", "legitimate", "new_type", None),
    ]


def test_without_ids_records_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "any.csv"
    path.write_text("prompt,type,label\nAsk,definitions,Safe\n")
    [placed] = open_import(path, no_problem).rows

    assert placed.row.id == "xstest-1"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_each_layout_has_its_own_name() -> None:
    names = [layout.name for layout in suite_layouts()]

    assert len(set(names)) == len(names) == 13


def test_rows_carry_the_layout_they_came_through(tmp_path: Path) -> None:
    path = write(tmp_path, "any.csv", "goal,target\nSteal a car,Sure\n")
    opened = open_import(path, no_problem)
    [placed] = opened.rows

    assert opened.layout.name == "advbench"
    assert placed.row.source == "advbench"
    assert placed.where == f"{path}:2"


def test_bad_records_are_reported_with_their_line_and_the_rest_is_read(tmp_path: Path) -> None:
    text = (
        "id,prompt,type,label,focus,note\n"
        "1,Ask,homonyms,safe,,\n2, ,homonyms,safe,,\n3,Ask,x,maybe,,\n"
    )
    path = write(tmp_path, "xstest_prompts.csv", text)
    problems: list[Problem] = []
    rows = [placed.row.id for placed in open_import(path, problems.append).rows]

    assert rows == ["xstest-1"]
    assert problems == [
        Problem(f"{path}:3", "the prompt is empty", "write the request"),
        Problem(f"{path}:4", "`label` must be `safe` or `unsafe`, not `maybe`", None),
    ]


def test_bytes_that_are_not_utf8_cost_one_row(tmp_path: Path) -> None:
    path = tmp_path / "harmful_behaviors.csv"
    path.write_bytes(b"goal,target\nbreak the caf\xe9,x\nbreak the bar,x\n")
    problems: list[Problem] = []
    rows = [placed.row.prompt for placed in open_import(path, problems.append).rows]

    assert rows == ["break the bar"]
    assert [(problem.where, problem.problem) for problem in problems] == [
        (f"{path}:2", "`prompt` is not UTF-8 text")
    ]


def test_rows_left_out_by_rule_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "PHTest.csv", "ID,Request,Harmfulness\n1,Ask,controversial\n")
    reasons: list[str] = []

    assert list(open_import(path, no_problem, left_out=reasons.append).rows) == []
    assert reasons == ["controversial, neither harmful nor legitimate"]
    assert list(open_import(path, no_problem).rows) == []


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("or-bench-80k.csv", "legitimate"),
        ("OR-Bench-Hard-1k.csv", "legitimate"),
        ("or-bench-toxic.csv", "harmful"),
    ],
)
def test_the_name_of_the_file_tells_parts_of_a_suite_apart(
    tmp_path: Path, name: str, label: str
) -> None:
    path = write(tmp_path, name, "prompt,category\nAsk,privacy\n")
    [placed] = open_import(path, no_problem).rows

    assert placed.row.label == label


def test_a_name_that_does_not_tell_is_not_guessed_at(tmp_path: Path) -> None:
    path = write(tmp_path, "data.csv", "prompt,category\nAsk,privacy\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem)

    assert "does not say which part" in caught.value.problem
    assert caught.value.help == "say `--format or-bench-toxic` or `--format or-bench`"


def test_a_format_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "toxic.csv", "prompt,category\nAsk,privacy\n")
    [placed] = open_import(path, no_problem, form="or-bench").rows

    assert placed.row.label == "legitimate"


@pytest.mark.parametrize(
    ("form", "help_text"),
    [("xtest", "did you mean `xstest`?"), ("zzz", "one of xstest, or-bench-toxic")],
)
def test_an_unknown_format_says_what_there_is(tmp_path: Path, form: str, help_text: str) -> None:
    path = write(tmp_path, "a.csv", "a,b\n1,2\n")
    with pytest.raises(InputError) as caught:
        open_import(path, no_problem, form=form)

    assert str(caught.value.help).startswith(help_text)


def test_a_named_format_whose_columns_are_missing_says_which(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "prompt,kind\n1,2\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem, form="xstest")

    assert caught.value.problem == "as xstest, the file lacks `label`, `type`"
    assert caught.value.help == "it has `kind`, `prompt`"


def test_columns_that_no_suite_has_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", ",".join("abcdefghijk") + "\n" + "1," * 10 + "1\n")
    with pytest.raises(SuiteError) as caught:
        open_import(path, no_problem)

    assert caught.value.problem.endswith("`g`, `h` and 3 more")


def read_records(path: Path) -> tuple[frozenset[str], list[TableRecord], list[tuple[str, str]]]:
    told: list[tuple[str, str]] = []
    table = read_table(
        path,
        lambda problem: told.append((str(problem.where).removeprefix(str(path)), problem.problem)),
    )
    records = list(table.records)
    return table.columns, records, told


def test_csv_knows_the_line_at_which_each_record_begins(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", '\nid, prompt\n1,"two\nlines"\n\n2,one\n')
    columns, records, problems = read_records(path)

    assert columns == {"id", "prompt"}
    assert problems == []
    assert records == [
        TableRecord({"id": "1", "prompt": "two\nlines"}, f"{path}:3", 1),
        TableRecord({"id": "2", "prompt": "one"}, f"{path}:6", 2),
    ]


def test_tabs_part_the_columns_of_tsv(tmp_path: Path) -> None:
    columns, [record], _ = read_records(write(tmp_path, "a.tsv", "id\tprompt\n1\ta, b\n"))

    assert columns == {"id", "prompt"}
    assert record.fields["prompt"] == "a, b"


def test_a_row_of_another_length_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    _, records, problems = read_records(write(tmp_path, "a.csv", "id,prompt\n1,a,b\n2\n3,c\n"))

    assert [record.fields["id"] for record in records] == ["3"]
    assert problems == [
        (":2", "the row has 3 columns, the header 2"),
        (":3", "the row has 1 columns, the header 2"),
    ]


def test_a_quote_left_open_does_not_swallow_the_file(tmp_path: Path) -> None:
    text = "id,prompt\n1,ok\n" + '2,"open\n' + "x" * csv.field_size_limit() + "\n3,fine\n"
    _, records, problems = read_records(write(tmp_path, "a.csv", text))

    assert [record.fields["id"] for record in records] == ["1", "3"]
    [(where, problem)] = problems
    assert where == ":3"
    assert problem.startswith("not CSV: ")


def test_a_duplicate_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="the column `id` appears twice"):
        read_records(write(tmp_path, "a.csv", "id,id\n1,2\n"))


def test_json_lines_are_read_line_by_line(tmp_path: Path) -> None:
    raw = b'{"a": 1}\n\n[1]\n{"a": "caf\xe9"}\n{"a": \n{"a": 2}\n'
    path = write(tmp_path, "a.jsonl", raw)
    columns, records, problems = read_records(path)

    assert columns == {"a"}
    assert [(record.fields["a"], record.where) for record in records] == [
        (1, f"{path}:1"),
        (2, f"{path}:6"),
    ]
    assert [where for where, _ in problems] == [":3", ":4", ":5"]
    assert [problem.partition(":")[0] for _, problem in problems] == [
        "the record is not a JSON object",
        "not UTF-8 text",
        "not JSON",
    ]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_in_json_knows_its_lines_too(tmp_path: Path, indent: int | None) -> None:
    values = [{"a": "[x]\n"}, "{}", {"a": "[x]\n"}]
    path = write(tmp_path, "a.json", json.dumps(values, indent=indent))
    _, records, problems = read_records(path)
    lines = ["2", "6"] if indent else ["1", "1"]

    assert [record.where.rpartition(":")[2] for record in records] == lines
    assert [record.number for record in records] == [1, 3]
    assert problems == [(":5" if indent else ":1", "the record is not a JSON object")]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", " \n\n", "the file is empty"),
        ("a.json", "[]", "the file holds no record"),
        ("a.json", "[{]", "not JSON: "),
        ("a.jsonl", "{broken\n", "the file holds no record"),
    ],
)
def test_a_file_without_records_is_refused(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(SuiteError) as caught:
        read_records(path)

    assert caught.value.where == str(path)
    assert caught.value.problem.startswith(problem)


RECORD = TableRecord({"id": "A 7", "number": 3, "gone": None}, "a.csv:8", 7)


def test_read_column_returns_the_text_of_the_column() -> None:
    assert read_column(RECORD, "id") == "A 7"
    assert read_column(RECORD, "number") == "3"


@pytest.mark.parametrize("column", ["gone", "never"])
def test_a_column_without_value_is_an_error(column: str) -> None:
    with pytest.raises(InputError, match=f"the row has no `{column}`"):
        read_column(RECORD, column)


def test_an_id_has_no_spaces_and_falls_back_to_the_number() -> None:
    layout = SuiteLayout(
        name="x", title="X", columns=(frozenset({"id"}),), prompt=("id",), label="harmful"
    )

    own = msgspec.structs.replace(layout, id="id").read_record(RECORD)
    numbered = layout.read_record(RECORD)

    assert own is not None
    assert own["id"] == "x-A-7"
    assert numbered is not None
    assert numbered["id"] == "x-7"


def test_a_category_is_ours_where_we_have_a_word_for_it() -> None:
    category = ColumnWords(column="kind", words={"malware_hacking": "cyber"})

    assert category.categorise(TableRecord({"kind": " Malware/Hacking "}, "", 1)) == "cyber"
    assert category.categorise(TableRecord({"kind": "Self-harm"}, "", 1)) == "self_harm"
