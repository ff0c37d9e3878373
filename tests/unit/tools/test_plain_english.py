import ast
from pathlib import Path

import plain_english
import pytest
from plain_english import (
    AIMS,
    STOP_LIST,
    collect_prose,
    count_words,
    has_question_subject,
    is_passive,
    list_faults,
    main,
    measure,
    measure_groups,
    missed_aims,
    name_group,
    read_html,
    read_markdown,
    read_messages,
    read_texts,
    split_sentences,
)


def test_docs_help_texts_messages_and_pages_read_plainly() -> None:
    missed = {
        row.name: names
        for row in measure_groups(list(collect_prose()))
        if (names := missed_aims(row))
    }

    assert missed == {}, "run `python tools/plain_english.py WORD` with a part of a page's name"


@pytest.mark.parametrize(
    "sentence",
    [
        "The call is refused.",
        "Records were not always kept.",
        "It must be read first.",
        "The key is never silently replaced.",
    ],
)
def test_be_and_a_participle_are_passive(sentence: str) -> None:
    assert is_passive(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "demur refused the call.",
        "The history is unchanged.",
        "You need a key.",
        "The feed is red.",
        "It is based on signatures.",
    ],
)
def test_a_sentence_with_an_actor_is_active(sentence: str) -> None:
    assert not is_passive(sentence)


@pytest.mark.parametrize(
    "sentence", ["What a guard found comes first.", '"Who asks, waits."', "Whoever asks waits."]
)
def test_what_and_who_are_question_subjects(sentence: str) -> None:
    assert has_question_subject(sentence)


@pytest.mark.parametrize(
    "sentence", ["What does it cost?", "Whole files are fine.", "A person who asks waits."]
)
def test_questions_and_relative_clauses_have_no_question_subject(sentence: str) -> None:
    assert not has_question_subject(sentence)


def test_a_sentence_ends_at_a_full_stop_before_a_capital() -> None:
    text = 'One, e.g. this. "Two" is 3.5: more; still two.\nThree? (Four.)'

    assert split_sentences(text) == [
        "One, eg this.",
        '"Two" is 3.5: more; still two.',
        "Three?",
        "(Four.)",
    ]


@pytest.mark.parametrize(
    ("text", "words"), [("a path/of/it, and 3.5 s", 5), ("it's two-sided", 2), ("* …", 0)]
)
def test_a_path_and_a_number_are_one_word(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize("text", ["nothing to remark", "Whoever asks", "in order to", "is no key"])
def test_riddles_and_filler_are_on_the_stop_list(text: str) -> None:
    assert STOP_LIST.search(text)


@pytest.mark.parametrize("text", ["whatever it holds", "is no keyword", "the order to follow"])
def test_ordinary_words_are_not_on_the_stop_list(text: str) -> None:
    assert not STOP_LIST.search(text)


def test_markdown_leaves_out_code_comments_and_addresses() -> None:
    page = read_markdown(
        "a.md",
        "# Title\n\n<!-- note -->\nRun `demur show last`, see [the page](x.md#y).\n\n"
        "```python\nx = 1\n```\n\n- **Lead.** First item\n  goes on.\n- Second.\n\n"
        "| a | b |\n|---|---|\n| short | a cell that is a whole sentence |\n",
    )

    assert page.paragraphs[0].split("\n")[-1] == "Run Code, see the page."
    assert "First item\n  goes on." in page.paragraphs
    assert "a cell that is a whole sentence" in page.paragraphs
    assert [count_words(bullet) for bullet in page.bullets] == [5, 1]
    assert {"# Title", "a", "short"} <= set(page.labels)
    assert not any("x = 1" in text or "note" in text for text in (*page.paragraphs, *page.labels))


def test_html_gives_the_visible_texts() -> None:
    page = read_html(
        "a.html",
        [
            "{# hidden #}<p>Sent by <b>{{ name }}</b>. {% if x %}Go on.{% endif %}</p>",
            '<button title="Copy it now.">Copy</button><script>let a = "No.";</script>',
        ],
    )

    assert set(page.paragraphs) == {"Copy it now.", "Sent by X.", "Go on."}
    assert "Copy" in page.labels


def test_messages_are_literal_texts_of_errors_and_help() -> None:
    source = (
        'raise InputError(f"`{x}` is not a key: {y}", help="use `a b`")\n'
        'add(name, help="show it")\nlog.warning("slow %s", 1)\nprint("no message")\n'
    )

    assert list(read_messages(ast.parse(source))) == [
        "Code is not a key: X",
        "use Code",
        "show it",
        "slow %s",
    ]


def test_a_row_has_lengths_and_shares() -> None:
    texts = ["A call is refused. demur says why in a line.", "What it says counts.", "label"]
    row = measure("x", [read_texts("x", texts)])

    assert (row.sentences, row.median, row.p95) == (3, 4, 6)
    assert (round(row.passive), round(row.subjects), row.bullets, row.stop_words) == (33, 33, 0, 0)
    assert missed_aims(row) == ["passive", "subjects"]
    assert missed_aims(AIMS) == []


def test_faults_are_listed_with_their_kind() -> None:
    page = read_markdown("x", f"- {'word ' * 31}.\n- It is made.\n\nWhoever asks waits.\n")

    kinds = [fault.split(":")[0] for fault in list_faults(page)]
    assert sorted(kinds) == ["bullets", "p95", "passive", "stop list", "subjects"]


@pytest.mark.parametrize(
    ("name", "group"),
    [("docs/reference/a.md", "reference"), ("docs/a.md", "docs"), ("messages", "messages")],
)
def test_a_page_belongs_to_a_group(name: str, group: str) -> None:
    assert name_group(name) == group


def test_check_fails_if_a_group_misses_an_aim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = tmp_path / "src" / "demur" / "cli"
    cli.mkdir(parents=True)
    (cli / "commands.json").write_text('{"groups": {}, "commands": [{"summary": "show it"}]}')
    (tmp_path / "README.md").write_text("It is made.\n")

    assert main([], tmp_path) == 0
    assert main(["--check", "README"], tmp_path) == 1
    assert "README.md: passive: It is made." in capsys.readouterr().out

    (tmp_path / "README.md").write_text("demur makes it.\n")
    assert main(["--check"], tmp_path) == 0
    assert plain_english.AIMS.name in capsys.readouterr().out
