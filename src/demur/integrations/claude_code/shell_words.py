"""The words of a shell command, and whether all that it does with files is to read them."""

import re
import shlex
from collections.abc import Callable, Iterator

__all__ = ["only_reads", "words_in"]

_PUNCTUATION = "();<>|&\n"
_APART = re.compile(r"""[\s'"`=:;@()<>|&+]+""")
_QUOTES = re.compile(r"""['"\\]""")
# No path is longer.
_LONGEST_WORD = 4096
_LONGEST = 10_000
_HIDDEN = re.compile(r"`|\$\(|[<>]\(")
_LINES = re.compile(r"[\d,$]+p")
_READERS = frozenset(
    {
        *("cat", "bat", "head", "tail", "less", "more", "nl", "wc", "file", "stat", "ls", "tree"),
        *("grep", "egrep", "fgrep", "rg", "jq", "diff", "cmp", "md5sum", "sha256sum", "pwd", "cd"),
        *("echo", "printf", "test", "[", "true", "realpath", "readlink", "basename", "dirname"),
    }
)
_OF_GIT = frozenset(
    {*("add", "blame", "commit", "diff", "grep", "log", "ls-files", "show", "status")}
)
_OF_FIND = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls")


def words_in(text: str) -> set[str]:
    """Return all words of a command that may be paths, with and without its quotes."""
    # A comma separates words, or belongs to a pattern: `.{a,b}`.
    forms = (text, text.replace(",", " "), _QUOTES.sub("", text))
    words = {word for form in forms for word in _APART.split(form)}
    return {word for word in words if 0 < len(word) <= _LONGEST_WORD}


def only_reads(text: str, held: Callable[[str], bool]) -> bool:
    """Return whether a command clearly only reads, and changes into no protected folder.

    A command that cannot be fully read counts as one that writes.
    """
    hidden = len(text) > _LONGEST or _HIDDEN.search(text)
    commands = None if hidden else _commands(text)
    return commands is not None and all(_reads(words, held) for words in commands)


def _reads(words: list[str], held: Callable[[str], bool]) -> bool:
    program, *rest = words
    match program:
        case "cd":
            return not any(map(held, rest))
        case "git":
            return bool(rest) and rest[0] in _OF_GIT and not any(map(_is_output, rest))
        case "find":
            return not any(word.startswith(_OF_FIND) for word in rest)
        case "sed":
            return rest[:1] == ["-n"] and _LINES.fullmatch("".join(rest[1:2])) is not None
        case _:
            return program in _READERS


def _is_output(word: str) -> bool:
    return word.startswith("--output")


def _commands(text: str) -> list[list[str]] | None:
    """Return the commands of a text, each as its words; None if one writes or cannot be read."""
    try:
        return [words for words in _parted(_tokens(text)) if words]
    except ValueError:
        return None


def _tokens(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return iter(lexer)


def _parted(tokens: Iterator[str]) -> Iterator[list[str]]:
    words: list[str] = []
    for word in tokens:
        if set(word) - set(_PUNCTUATION):
            words.append(word)
        elif ">" in word:
            # `/dev/null` and other streams are no files.
            target = next(tokens, "")
            if target != "/dev/null" and not (word == ">&" and target.isdigit()):
                raise ValueError(word)
        elif "<" not in word:
            yield words
            words = []
    yield words
