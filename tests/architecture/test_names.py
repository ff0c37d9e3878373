"""Names follow the language of the project: one word for one thing, and the field's word."""

from collections import Counter

from measure_code import (
    class_names,
    function_names,
    is_bare_participle,
    limit_names,
    parse_modules,
    stop_words_in_names,
    stop_words_in_prose,
)

TREES = parse_modules()
# Classes that share their name, each with its reason.
SHARED_CLASSES = {
    "Action": "a request's action and what a finding asks for are both nouns of the contract",
}
MAX_SHARED_PERCENT = 2


def test_no_two_classes_share_a_name() -> None:
    names = Counter(class_names(TREES))
    shared = {name for name, count in names.items() if count > 1}

    assert shared == set(SHARED_CLASSES)
    assert 100 * sum(names[name] for name in shared) <= MAX_SHARED_PERCENT * names.total()


def test_no_function_is_a_bare_participle() -> None:
    assert [name for name in function_names(TREES) if is_bare_participle(name)] == []


def test_limits_are_called_max_or_min() -> None:
    assert list(limit_names(TREES)) == []


def test_no_name_is_built_with_a_stop_word() -> None:
    assert list(stop_words_in_names(TREES)) == []


def test_no_docstring_comment_message_or_page_uses_a_stop_word() -> None:
    assert list(stop_words_in_prose()) == []
