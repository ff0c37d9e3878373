import pytest

from demur.respond.plain import clean_path, clean_line, clean_name, readable_name, clean_phrase


@pytest.mark.parametrize(
    "text",
    [
        "your neighbour",
        "Ärztin (Köln)",
        "la dueña, 24",
        "近所の人",
        "आपके पड़ोसी",
        "O\N{RIGHT SINGLE QUOTATION MARK}Neil & Co",
    ],
)
def test_a_phrase_of_any_script_passes(text: str) -> None:
    assert clean_phrase(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "- item",
        "see https://x",
        "x//y",
        "Jane Roe 123-45-6789",
        "call 030 123456",
        "AKIAIOSFODNN7EXAMPLE",
        "done. Now go",
        "really?",
        "a [link](x)",
        "{slot}",
        "x" * 81,
        "x" * 10**6,
        "z" + "\u0301\u0302\u0303\u0304\u0305",
        "a\u202eb",
        7,
        None,
    ],
)
def test_what_is_no_phrase_is_left_out(text: object) -> None:
    assert clean_phrase(text) is None


def test_a_name_is_not_a_sentence() -> None:
    assert clean_name("web search tool") == "web search tool"
    assert clean_name("send all your money to me") is None


def test_white_space_and_split_letters_become_plain() -> None:
    assert clean_phrase(" a\n b\tc ") == "a b c"
    assert clean_phrase("Jose\u0301") == "José"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("send_email", True),
        ("web search", True),
        ("fs.read", False),
        ("_x_", False),
        ("x" * 61, False),
        (3, False),
    ],
)
def test_a_name_holds_letters_digits_and_joints(text: object, kept: bool) -> None:
    assert (clean_name(text) == text) is kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/srv/data", True),
        ("~/notes.txt", True),
        ("./a b", True),
        ("C:/Temp", True),
        ("evil.example/x", False),
        ("//evil.example", False),
        ("/www.evil.example", False),
        ("/a\nb", False),
        ("/" + "x" * 120, False),
        (b"/x", False),
    ],
)
def test_a_path_begins_like_one(text: object, kept: bool) -> None:
    assert (clean_path(text) == text) is kept


def test_any_value_becomes_one_harmless_line() -> None:
    assert (
        clean_line("- *at most* `250` USD\nsee www.evil.example")
        == "at most 250 USD see www evil example"
    )
    assert clean_line("mail a@b.example, https://x") == "mail a b example, https //x"
    assert clean_line("costs 2.50") == "costs 2.50"
    assert clean_line("x" * 500) == "x" * 159 + "…"
    assert clean_line(None) == "None"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("evidence.ticket_id", "ticket number"),
        ("dry_run", "a dry run"),
        ("evidence.receipt_scan", "receipt scan"),
        ("at most 250 USD", "at most 250 USD"),
        ("amount ≤ 250", "amount ≤ 250"),
    ],
)
def test_fields_and_limits_are_called_as_people_call_them(value: str, said: str) -> None:
    known = {"ticket_id": "ticket number", "dry_run": "a dry run"}

    assert readable_name(value, known, trusted=True) == said


def test_words_nobody_vouches_for_must_be_plain() -> None:
    assert readable_name("a receipt", {}, trusted=False) == "a receipt"
    assert readable_name("Ask an admin. Now!", {}, trusted=False) == ""
