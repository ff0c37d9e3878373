import pytest

from demur.integrations.claude_code.shell_words import only_reads_files, split_words


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cat .cla'ude'/x", ".claude/x"),
        ("dd of=.claude/x", ".claude/x"),
        ("python -c \"open('.claude/x', 'w')\"", ".claude/x"),
        ("it's .claude/x", ".claude/x"),
        ("scp a me@host:.claude/x", ".claude/x"),
        ("Set-Content .claude\\x", ".claude\\x"),
    ],
)
def test_words_are_found_with_and_without_quotes(text: str, word: str) -> None:
    assert word in split_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cat x",
        "cd a && cat x | head -3; ls\npwd",
        "grep 'a|b' x 2>/dev/null",
        "grep a x 2>&1",
        "cat < x",
        "sed -n 1,20p x",
        "git diff x",
        "find . -name x",
    ],
)
def test_what_plainly_reads_is_seen_as_such(text: str) -> None:
    assert only_reads_files(text, lambda _: False)


@pytest.mark.parametrize(
    "text",
    [
        "rm x",
        "echo a > x",
        "echo a >> x",
        "echo a >& x",
        "echo a >",
        "cat x | tee y",
        "cat $(ls)",
        "cat `ls`",
        "diff <(ls) x",
        "sed -i s/a/b/ x",
        "sed -n",
        "sed w x",
        "git checkout x",
        "git",
        "git diff --output=x",
        "find . -delete",
        "A=1 cat x",
        "cat it's",
        "cd held",
        f"cat {'x' * 10_000}",
    ],
)
def test_what_is_not_plain_counts_as_more(text: str) -> None:
    assert not only_reads_files(text, lambda word: word == "held")
