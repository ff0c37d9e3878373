import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_secrets import github_token

from demur.errors import InputError
from demur.evals.pairs import (
    MAX_TEXT_LENGTH,
    REMOVED_MARK,
    PairMeta,
    PairReason,
    PairsError,
    PreferencePair,
    SkippedRow,
    balance_pairs,
    check_overwrite,
    clean_text,
    drop_duplicates,
    encode_pair,
    read_pairs,
    write_pairs,
)


def pair(prompt: str, why: PairReason = "false_refusal", **meta: Any) -> PreferencePair:
    given = {"row_id": prompt, "chosen_by": "template", "rejected_by": "model", **meta}
    return PreferencePair(
        prompt=prompt, chosen="Yes.", rejected="No.", meta=PairMeta(why=why, **given)
    )


def test_a_line_is_what_trainers_read_with_where_it_is_from() -> None:
    line = json.loads(encode_pair(pair("May I?", run="first", suite_digest="sha256:0")))

    assert {name: line[name] for name in ("prompt", "chosen", "rejected")} == {
        "prompt": "May I?",
        "chosen": "Yes.",
        "rejected": "No.",
    }
    assert line["meta"]["run"] == "first"
    assert line["meta"]["why"] == "false_refusal"


def test_a_line_for_chat_holds_messages() -> None:
    line = json.loads(encode_pair(pair("May I?"), chat=True))

    assert line["prompt"] == [{"role": "user", "content": "May I?"}]
    assert line["chosen"] == [{"role": "assistant", "content": "Yes."}]
    assert line["rejected"] == [{"role": "assistant", "content": "No."}]


@pytest.mark.parametrize("chat", [False, True])
def test_written_pairs_are_read_back(tmp_path: Path, chat: bool) -> None:
    path = tmp_path / "pairs.jsonl"
    pairs = [pair("May I?"), PreferencePair(prompt="And now?", chosen="Yes.", rejected="No.")]
    write_pairs(pairs, path, chat=chat)

    assert read_pairs(path) == (pairs, chat)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write the pairs"):
        write_pairs([pair("May I?")], tmp_path / "none" / "pairs.jsonl")


def test_a_file_that_is_there_is_not_replaced_by_mistake(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    check_overwrite(path, force=False)
    path.touch()
    check_overwrite(path, force=True)

    with pytest.raises(InputError, match="already exists"):
        check_overwrite(path, force=False)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON: input data was truncated"),
        ("[]", "the line is not a JSON object"),
        ('{"prompt": "a", "chosen": "b"}', "`rejected` must be a non-empty string"),
        (
            '{"prompt": "a", "chosen": " ", "rejected": "c"}',
            "`chosen` must be a non-empty string",
        ),
        (
            '{"prompt": "a", "chosen": 1, "rejected": "c"}',
            "`chosen` must be a non-empty string",
        ),
        (
            '{"prompt": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"}',
            "`chosen` must be a list of one message with the role `assistant`",
        ),
        (
            '{"prompt": [{"role": "system", "content": "a"}], "chosen": [], "rejected": []}',
            "`prompt` must be a list of one message with the role `user`",
        ),
        (
            '{"prompt": "a", "chosen": "b", "rejected": "c", "meta": {}}',
            "`meta` is not valid: object missing required field `row_id`",
        ),
    ],
)
def test_each_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(f'\n{{"prompt": "a", "chosen": "b", "rejected": "c"}}\n{line}\n', "utf-8")
    with pytest.raises(PairsError) as caught:
        read_pairs(path)

    assert caught.value.problem.startswith(problem)
    assert caught.value.where == f"{path}:3"


def test_texts_and_messages_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(
        encode_pair(pair("May I?")) + b"\n" + encode_pair(pair("And I?"), chat=True) + b"\n"
    )

    with pytest.raises(PairsError, match="the file mixes plain texts and messages"):
        read_pairs(path)


def test_a_file_without_pairs_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    with pytest.raises(PairsError, match="cannot read"):
        read_pairs(path)
    path.touch()
    with pytest.raises(PairsError, match="the file holds no pairs"):
        read_pairs(path)


def test_prompts_that_are_nearly_the_same_are_kept_once() -> None:
    left_out: list[SkippedRow] = []
    asked = "Please count the boxes in the third row for me."
    bare = PreferencePair(prompt=asked, chosen="Yes.", rejected="No.")
    given = [
        pair(asked),
        pair(asked.upper()),
        pair(asked.replace("third", "fourth")),
        pair(asked, "missed_harm"),
        bare,
        bare,
    ]

    assert list(drop_duplicates(given, left_out)) == [given[0], given[3], bare]
    assert [(one.kind, one.row_id) for one in left_out] == [
        ("duplicate", asked.upper()),
        ("duplicate", asked.replace("third", "fourth")),
        ("duplicate", "pair 2"),
    ]


def test_a_balance_keeps_as_many_of_each_kind_spread_over_categories() -> None:
    left_out: list[SkippedRow] = []
    many = [pair(f"a{number}", category="cyber") for number in range(3)]
    many += [pair("b", category="crime")]
    few = [pair(f"h{number}", "missed_harm") for number in range(2)]
    kept = balance_pairs([*many, *few], left_out)

    assert [one.prompt for one in kept] == ["a0", "b", "h0", "h1"]
    assert [(one.row_id, one.kind) for one in left_out] == [("a1", "balance"), ("a2", "balance")]


def test_one_kind_alone_stays_whole() -> None:
    left_out: list[SkippedRow] = []

    assert len(balance_pairs([pair("a"), pair("b")], left_out)) == 2
    assert left_out == []


def test_plain_text_stays_as_it_is() -> None:
    text = "Yes.\n\n1. Take the box.\n2. Open it: 12 cards, 3 rows, 2026."

    assert clean_text(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Write to ada.l@example.org today.", f"Write to {REMOVED_MARK} today."),
        ("Call +49 30 1234567 now.", f"Call {REMOVED_MARK} now."),
        ("My card is 4111 1111 1111 1111.", f"My card is {REMOVED_MARK}."),
        ("Card 4111 1111 1111 1111 22 is it.", f"Card {REMOVED_MARK} is it."),
    ],
)
def test_personal_data_is_removed(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_credentials_are_taken_out_also_where_the_text_is_cut() -> None:
    secret = github_token()
    cut = clean_text(f"{'word ' * 10}{secret} and more", 55)

    assert secret[:6] not in cut
    assert len(cut) <= 55


def test_a_text_over_the_limit_is_cut_and_marked() -> None:
    cut = clean_text("word " * MAX_TEXT_LENGTH)

    assert len(cut) <= MAX_TEXT_LENGTH
    assert cut.endswith("…")


def test_half_a_surrogate_pair_can_be_written() -> None:
    assert clean_text("a\ud800b").encode() == b"a?b"
