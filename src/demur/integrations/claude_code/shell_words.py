"""The words of a shell command, and whether all that it does with files is to read them."""

import re
import shlex
from collections.abc import Callable, Iterator

__all__ = ["only_reads_files", "split_words"]

_PUNCTUATION = "();<>|&\n"
_WORD_SEPARATORS = re.compile(r"""[\s'"`=:;@()<>|&+]+""")
_QUOTES = re.compile(r"""['"\\]""")
# No path is longer.
_MAX_WORD_LENGTH = 4096
_MAX_COMMAND_LENGTH = 10_000
_SUBSTITUTION = re.compile(r"`|\$\(|[<>]\(")
_SED_PRINT = re.compile(r"[\d,$]+p")
_READING_PROGRAMS = frozenset(
    {
        *("cat", "bat", "head", "tail", "less", "more", "nl", "wc", "file", "stat", "ls", "tree"),
        *("grep", "egrep", "fgrep", "rg", "jq", "diff", "cmp", "md5sum", "sha256sum", "pwd", "cd"),
        *("echo", "printf", "test", "[", "true", "realpath", "readlink", "basename", "dirname"),
    }
)
_SAFE_GIT_COMMANDS = frozenset(
    {*("add", "blame", "commit", "diff", "grep", "log", "ls-files", "show", "status")}
)
_FIND_ACTIONS = ("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprintf", "-fls")


def split_words(text: str) -> set[str]:
    """Return all words of a command that may be paths, with and without its quotes."""
    # A comma separates words, or belongs to a pattern: `.{a,b}`.
    forms = (text, text.replace(",", " "), _QUOTES.sub("", text))
    words = {word for form in forms for word in _WORD_SEPARATORS.split(form)}
    return {word for word in words if 0 < len(word) <= _MAX_WORD_LENGTH}


def only_reads_files(text: str, is_protected: Callable[[str], bool]) -> bool:
    """Return whether a command clearly only reads, and changes into no protected folder.

    A command that cannot be fully read counts as one that writes.
    """
    hidden = len(text) > _MAX_COMMAND_LENGTH or _SUBSTITUTION.search(text)
    commands = None if hidden else _parse_commands(text)
    return commands is not None and all(_is_read_only(words, is_protected) for words in commands)


def _is_read_only(words: list[str], is_protected: Callable[[str], bool]) -> bool:
    program, *rest = words
    match program:
        case "cd":
            return not any(map(is_protected, rest))
        case "git":
            return (
                bool(rest)
                and rest[0] in _SAFE_GIT_COMMANDS
                and not any(map(_is_output_option, rest))
            )
        case "find":
            return not any(word.startswith(_FIND_ACTIONS) for word in rest)
        case "sed":
            return rest[:1] == ["-n"] and _SED_PRINT.fullmatch("".join(rest[1:2])) is not None
        case _:
            return program in _READING_PROGRAMS


def _is_output_option(word: str) -> bool:
    return word.startswith("--output")


def _parse_commands(text: str) -> list[list[str]] | None:
    """Return the commands of a text, each as its words; None if one writes or cannot be read."""
    try:
        return [words for words in _split_commands(_shell_tokens(text)) if words]
    except ValueError:
        return None


def _shell_tokens(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    return iter(lexer)


def _split_commands(tokens: Iterator[str]) -> Iterator[list[str]]:
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
