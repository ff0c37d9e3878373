"""Read a pattern of the rule grammar into its tree, or say what in it is not allowed."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NoReturn

from demur.errors import InputError
from demur.scan.alphabet import FOLDED
from demur.scan.tree import ANY, Boundary, Choice, Literal, Node, OneOf, Repeat, Sequence

__all__ = ["NO_WORDS", "PatternError", "parse"]

NO_WORDS: Mapping[str, Node] = MappingProxyType({})

_MOST_REPEATS = 1_000
_DEEPEST = 20
_PUNCTUATION = frozenset("\\.^$|?*+()[]{}-/#&~'\"!%,:;<=>@_` ")
_DIGIT = frozenset(b"0123456789")
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(b" ")
_EVERY = ANY.members
_CLASSES = {
    "d": _DIGIT,
    "D": _EVERY - _DIGIT,
    "s": _SPACE,
    "S": _EVERY - _SPACE,
    "w": _WORD,
    "W": _EVERY - _WORD,
}
_LOWER = "text is folded before it is matched: write it in lower case"
_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_BOUNDED = "write `{0,40}` or another bound"


class PatternError(InputError):
    """A pattern outside the grammar; `position` is where in it, counted from 0."""

    def __init__(self, problem: str, *, position: int, help: str | None = None) -> None:  # noqa: A002 - as in the base
        super().__init__(problem, help=help)
        self.position = position


def parse(source: str, words: Mapping[str, Node]) -> Node:
    """Return the tree of the pattern in `source`, where `{name}` is one of `words`.

    Raises:
        PatternError: It is not in the grammar.
    """
    return _Parser(source, words).parse()


class _Parser:
    def __init__(self, source: str, words: Mapping[str, Node]) -> None:
        self.source = source
        self.words = words
        self.at = 0
        self.depth = 0

    def fail(self, problem: str, help_text: str | None = None, at: int | None = None) -> NoReturn:
        raise PatternError(problem, position=self.at if at is None else at, help=help_text)

    def peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def take(self) -> str:
        character = self.peek()
        self.at += 1
        return character

    def parse(self) -> Node:
        node = self.choice()
        if self.peek() == ")":
            self.fail("this `)` closes nothing", "write `\\)` for the character")
        return node

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.peek() == "|":
            self.take()
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.peek() not in {"", "|", ")"}:
            part = self.repeated()
            before = parts[-1] if parts else None
            if isinstance(part, Literal) and isinstance(before, Literal):
                parts[-1] = part = Literal(before.text + part.text)
                if part.text.endswith(b"  "):
                    self.fail("two spaces in a row match nothing", "white space is folded into one")
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self) -> Node:
        start = self.at
        part = self.atom()
        if self.peek() not in {"?", "*", "+", "{"} or _NAME.match(self.source, self.at):
            return part
        if isinstance(part, Boundary):
            self.fail("`\\b` cannot be repeated")
        least, most = self.count(part)
        if self.peek() in {"?", "+", "*", "{"} and not _NAME.match(self.source, self.at):
            self.fail(
                f"`{self.peek()}` cannot follow a repeat", "every match is taken at its longest"
            )
        node = Repeat(part, least, most)
        if _repeats(node) > _MOST_REPEATS:
            self.fail(f"repeats multiply to more than {_MOST_REPEATS}", _BOUNDED, at=start)
        return node

    def count(self, part: Node) -> tuple[int, int]:
        start = self.at
        mark = self.take()
        if mark == "?":
            return 0, 1
        if mark in "*+":
            if part not in (OneOf(_SPACE), Literal(b" ")):
                self.fail(f"`{mark}` has no bound", _BOUNDED, at=start)
            return int(mark == "+"), 1
        text, closed, _ = self.source[self.at :].partition("}")
        least, comma, most = text.partition(",")
        self.at += len(text) + 1
        if not closed or not least.isdecimal() or not text.isascii():
            self.fail("a repeat is `{m}` or `{m,n}`", "write `\\{` for the character", at=start)
        if comma and not most.isdecimal():
            self.fail(f"`{{{text}}}` has no upper bound", "write `{m,n}`", at=start)
        low, high = int(least[:9]), int((most or least)[:9])
        if high < low or high == 0:
            self.fail(f"`{{{text}}}` runs backwards or is empty", at=start)
        return low, high

    def atom(self) -> Node:
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            return self.one_of()
        if character == "\\":
            return self.escape()
        if character == ".":
            return ANY
        self.at -= 1
        if found := _NAME.match(self.source, self.at):
            return self.word(found[1])
        if character in "?*+{":
            self.fail(f"`{character}` repeats nothing", f"write `\\{character}` for the character")
        if character in "^$":
            help_text = f"rules look anywhere in the text; write `\\{character}` for the character"
            self.fail(f"`{character}` does not anchor here", help_text)
        if character in "]}":
            self.fail(f"this `{character}` closes nothing", f"write `\\{character}`")
        return self.literal()

    def word(self, name: str) -> Node:
        if name not in self.words:
            known = ", ".join(self.words) or "none so far"
            self.fail(f"there are no words called `{name}`", f"`words` defines {known}")
        self.at += len(name) + 2
        return self.words[name]

    def literal(self) -> Literal:
        character = self.peek()
        if character.isascii() and character.isupper():
            self.fail(f"`{character}` can never match", _LOWER)
        folded = FOLDED[ord(character)]
        if not folded:
            self.fail("an invisible character can never match", "leave it out")
        self.at += 1
        return Literal(folded.encode("latin-1"))

    def escape(self) -> Node:
        character = self.take()
        if character in _CLASSES:
            return OneOf(_CLASSES[character])
        if character == "b":
            return Boundary()
        if character and character in _PUNCTUATION:
            return Literal(character.encode())
        raise self.bad_escape(character)

    def bad_escape(self, character: str) -> PatternError:
        position = self.at - 2
        if character in {"n", "r", "t", "f", "v"}:
            problem, help_text = (
                f"`\\{character}` can never match",
                "white space is one space: `\\s`",
            )
        elif character.isdigit():
            problem, help_text = "back-references are not in the grammar", "write the words out"
        elif not character:
            problem, help_text = "the pattern ends in a `\\`", "write `\\\\` for the character"
        else:
            problem, help_text = (
                f"`\\{character}` is not in the grammar",
                "classes are `\\b \\s \\d \\w`",
            )
        return PatternError(problem, position=position, help=help_text)

    def group(self) -> Node:
        start = self.at - 1
        if self.peek() == "?":
            if not self.source.startswith("?:", self.at):
                self.fail(
                    "look-around, flags and named groups are not in the grammar",
                    "write `(?:...)`; use `unless` for what must not stand near",
                    at=start,
                )
            self.at += 2
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("groups are nested too deep", at=start)
        node = self.choice()
        self.depth -= 1
        if self.take() != ")":
            self.fail("this `(` is never closed", "write `\\(` for the character", at=start)
        return node

    def one_of(self) -> Node:
        start = self.at - 1
        negated = self.peek() == "^"
        self.at += negated
        members: set[int] = set()
        words: list[Node] = []
        while self.peek() != "]":
            if not self.peek():
                self.fail("this `[` is never closed", "write `\\[` for the character", at=start)
            member = self.member()
            if isinstance(member, OneOf):
                members |= member.members
            elif len(member.text) == 1:
                members |= self.range(member.text[0], member)
            else:
                words.append(member)
        self.take()
        if negated and words:
            self.fail("a negated class holds ASCII alone", at=start)
        if not members and not words:
            self.fail("the class is empty", at=start)
        if negated:
            return OneOf(_EVERY - members)
        return (
            Choice((*([OneOf(frozenset(members))] if members else []), *words))
            if words
            else (OneOf(frozenset(members)))
        )

    def member(self) -> OneOf | Literal:
        if self.peek() != "\\":
            return self.literal()
        start = self.at
        self.take()
        node = self.escape()
        if not isinstance(node, OneOf | Literal):
            self.fail("`\\b` cannot stand in a class", at=start)
        return node

    def range(self, first: int, member: Literal) -> set[int]:
        if self.peek() != "-" or self.source[self.at + 1 : self.at + 2] in {"]", ""}:
            return set(member.text)
        start = self.at
        self.take()
        last = self.member()
        if not isinstance(last, Literal) or len(last.text) != 1 or last.text[0] < first:
            self.fail("a range runs forward between two ASCII characters", at=start)
        return set(range(first, last.text[0] + 1)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _repeats(node: Node) -> int:
    """Return the product of nested repeats; re2 rejects more than a thousand."""
    match node:
        case Repeat(part, _, most):
            return most * _repeats(part)
        case Sequence(parts) | Choice(parts):
            return max(map(_repeats, parts), default=1)
        case _:
            return 1
