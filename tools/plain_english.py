"""Measure the prose that people read: `python tools/plain_english.py [--check] [WORD …]`.

It reads docs, help texts, messages, and the texts of dashboard and reports. Each row is a page or a
group; a WORD keeps the rows whose name contains it, and adds their faulty sentences. `--check` ends
with status 1 if a group exceeds an aim. The measures are heuristics: they find the pages to reread.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import starmap
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measure_code import IRREGULAR, NO_PARTICIPLES

from demur.source.python_tree import parse_tree

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
HTML = ("service/dashboard/templates/*.html", "audit/*.html", "evals/*.html")
MIN_LABEL_WORDS = 6
# Riddles, words of the first version's dialect, and filler.
STOP_LIST = re.compile(
    r"\b(?:(?:doorkeeper|hearsay|occasion|reckoning|sighting|teller|whither|whence|whoso)s?"
    r"|aforementioned|heretofore|hereby|herein|thereof|wherefore|in order to|due to the fact"
    r"|prior to|utili[sz]e[sd]?|leverag(?:es?|ing)|simply|obviously|seamless(?:ly)?|W(?:ho|hat)ever"
    r"|(?:is|are) (?:looked|taken) (?:at|for|through)|(?:is|are) none of (?:its|the)|no other but"
    r"|(?<!here )(?:is|are) no (?:code|date|key|number|period|time)|nothing to remark"
    r"|its own no|(?:rule|filter|guard|model)'s no|says? no as well)\b"
)
_ADVERBS = r"(?:(?:not|never|also|then|only|always|still|first|thus|\w+ly) ){0,2}"
_PASSIVE = re.compile(rf"\b(?i:is|are|was|were|be|been|being) {_ADVERBS}(\w+)")
_PARTICIPLES = IRREGULAR | {"cut", "put", "read", "run", "set", "shut", "split", "thrown"}
_ADJECTIVES = NO_PARTICIPLES | {"based", "indeed", "interested", "gone", "related", "supposed"}
_SUBJECT = re.compile(r"\W*(?:What|Who|Whoever|Whatever)\b(?!.*\?\W*$)")
_END = re.compile(r"(?<=[.!?])[\"')*_”]*\s+(?=[\"'(*_“]*(?:[A-Z0-9]|demur\b))")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.")
_WORD = re.compile(r"[^\W_]+(?:['.,:/_-][^\W_]+)*")
# A bold beginning that ends in a full stop or a colon is a heading.
_LEAD = re.compile(r"\*\*[^*]+?(?:[.:]\*\*|\*\*:)\s*")


class Prose(NamedTuple):
    """The texts of a page or group: sentences, bullets (also sentences), and short labels."""

    name: str
    paragraphs: Sequence[str]
    bullets: Sequence[str] = ()
    labels: Sequence[str] = ()


class Measure(NamedTuple):
    """The figures of one row: lengths in words, shares of sentences in percent."""

    name: str
    sentences: int
    median: float
    p95: int
    passive: float
    subjects: float
    bullets: int
    stop_words: int


AIMS = Measure("aim", 0, 16, 30, 12, 1, 25, 0)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph; a colon or a semicolon ends none."""
    text = _ABBREVIATION.sub(lambda found: found[0].replace(".", ""), " ".join(text.split()))
    return [sentence for sentence in _END.split(text) if count_words(sentence)]


def count_words(text: str) -> int:
    """Return the number of words; a path or a number is one."""
    return len(_WORD.findall(text))


def is_passive(sentence: str) -> bool:
    """Say whether a form of `be` and a past participle stand together."""
    words = {found[1].lower() for found in _PASSIVE.finditer(sentence)} - _ADJECTIVES
    return any(word in _PARTICIPLES or re.fullmatch(r"(?!un)\w{2,}ed", word) for word in words)


def has_question_subject(sentence: str) -> bool:
    """Say whether a statement begins with "What" or "Who"."""
    return bool(_SUBJECT.match(sentence))


def read_markdown(name: str, text: str) -> Prose:
    """Return the prose of a page: no code blocks and comments; a span of code is one word."""
    text = re.sub(r"(?ms)<!--.*?-->|^( *)(```+|~~~+)[^\n]*\n.*?^\1\2 *$", "", text)
    text = re.sub(r"(?s)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "Code", text)
    text = re.sub(r"!?\[((?:[^][]|\[[^]]*\])*)\](?:\([^)]*\)|\[[^]]*\])", r"\1", text)
    paragraphs, bullets, labels = list[str](), list[str](), list[str]()
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )|(?<=\n)(?=#)", text):
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+", block)
        body = block[item.end() :] if item else block.strip()
        if body.startswith("|"):
            _, cells, _, words = read_texts(name, re.split(r"[|\n]", body))
            paragraphs, labels = [*paragraphs, *cells], [*labels, *words]
        elif body.startswith("#"):
            labels.append(body)
        else:
            paragraphs.append(_LEAD.sub("", body, count=1) if _LEAD.match(body) else body)
            bullets += [body] if item else []
    return Prose(name, paragraphs, bullets, labels)


def read_texts(name: str, texts: Iterable[str]) -> Prose:
    """Return texts as sentences, or as labels if they are short and have no full stop."""
    paragraphs, labels = list[str](), list[str]()
    for text in (" ".join(text.split()) for text in texts):
        is_sentence = text.endswith((".", "!", "?")) or count_words(text) >= MIN_LABEL_WORDS
        (paragraphs if is_sentence else labels).append(text)
    return Prose(name, paragraphs, (), labels)


class _VisibleText(HTMLParser):
    """Collect the texts that a template shows, one a block element."""

    inline = frozenset(("a", "abbr", "b", "code", "em", "i", "small", "span", "strong", "time"))
    shown = frozenset(("alt", "aria-label", "placeholder", "title"))

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = [""]
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in ("script", "style")
        self.texts[:0] = [value for key, value in attrs if key in self.shown and value]
        self.texts += [] if tag in self.inline else [""]

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False
        self.texts += [] if tag in self.inline else [""]

    def handle_data(self, data: str) -> None:
        self.texts[-1] += "" if self._hidden else data


def read_html(name: str, texts: Iterable[str]) -> Prose:
    """Return what templates show; a value is one word, and a statement ends a text."""
    visible = _VisibleText()
    for text in texts:
        plain = re.sub(r"(?s)\{%.*?%\}", "<br>", re.sub(r"(?s)\{#.*?#\}", "", text))
        visible.feed(re.sub(r"(?s)\{\{.*?\}\}|\$\w+", "X", plain) + "<br>")
    return read_texts(name, visible.texts)


def read_messages(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of errors, log lines and help in a module; a value is one word."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        shown = re.search(r"(?:Error|Problem|Diagnostic|Check)$|^(?:warning|error|info)$", name)
        named = ("help", "problem", "summary", "description", "epilog")
        texts = [keyword.value for keyword in call.keywords if keyword.arg in named]
        texts[:0] = call.args if shown else []
        yield from filter(None, map(_read_literal, texts))


def _read_literal(node: ast.expr) -> str:
    """Return a literal text, quoted parts as one word; nothing for anything else."""
    parts = [
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"
        for part in (node.values if isinstance(node, ast.JoinedStr) else [node])
    ]
    return "" if parts == ["X"] else re.sub(r"`[^`]*`", "Code", "".join(parts))


def collect_prose(root: Path = ROOT) -> Iterator[Prose]:
    """Yield all prose of the project, page by page."""
    package = root / "src" / "demur"
    for path in (path for pattern in PAGES for path in sorted(root.glob(pattern))):
        yield read_markdown(str(path.relative_to(root)), path.read_text())
    commands = json.loads((package / "cli" / "commands.json").read_text())
    rows = [(row["summary"], *row.get("exit", {}).values()) for row in commands["commands"]]
    texts = [*commands["groups"].values(), *(text for row in rows for text in row)]
    by_name: dict[str, list[str]] = {"help texts": texts, "messages": []}
    for path in sorted(package.rglob("*.py")):
        name = "help texts" if path.parent.name == "cli" else "messages"
        by_name[name] += read_messages(parse_tree(path.read_text()))
    yield from (read_texts(name, texts) for name, texts in by_name.items())
    for pattern in HTML:
        yield read_html(pattern, (path.read_text() for path in sorted(package.glob(pattern))))


def measure(name: str, pages: Sequence[Prose]) -> Measure:
    """Return the figures of some pages together."""
    sentences = [s for page in pages for text in page.paragraphs for s in split_sentences(text)]
    lengths = sorted(map(count_words, sentences)) or [0]
    bullets = sorted(count_words(text) for page in pages for text in page.bullets) or [0]
    shown = (text for page in pages for text in (*page.paragraphs, *page.labels))
    p95, items = (counts[len(counts) * 95 // 100] for counts in (lengths, bullets))
    passive, subjects = (
        100 * sum(map(test, sentences)) / (len(sentences) or 1)
        for test in (is_passive, has_question_subject)
    )
    stop_words = sum(len(STOP_LIST.findall(text)) for text in shown)
    return Measure(name, len(sentences), median(lengths), p95, passive, subjects, items, stop_words)


def name_group(name: str) -> str:
    """Return the group of a page: a part of the docs, or the kind of text that it is."""
    kinds = {"docs/reference/": "reference", "docs/": "docs", ".md": "other pages", ".html": "HTML"}
    return next((kind for part, kind in kinds.items() if part in name), name)


def measure_groups(pages: Sequence[Prose]) -> list[Measure]:
    """Return one row a group, and the total."""
    groups: dict[str, list[Prose]] = {}
    for page in pages:
        groups.setdefault(f"all {name_group(page.name)}", []).append(page)
    return [*starmap(measure, groups.items()), measure("total", pages)]


def missed_aims(row: Measure) -> list[str]:
    """Return the names of the measures that exceed their aim."""
    return [name for name in Measure._fields[2:] if getattr(row, name) > getattr(AIMS, name)]


def list_faults(page: Prose) -> Iterator[str]:
    """Yield what exceeds an aim in a page, each with its fault."""
    for text in (*page.paragraphs, *page.labels):
        yield from (f"stop list: {found[0]}" for found in STOP_LIST.finditer(text))
    for text in page.bullets:
        yield from [f"bullets: {text}"] if count_words(text) > AIMS.bullets else []
    for sentence in (s for text in page.paragraphs for s in split_sentences(text)):
        names = set(missed_aims(measure("", [Prose("", [sentence])])))
        yield from (f"{name}: {sentence}" for name in sorted(names - {"median", "stop_words"}))


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Print the table, and return 1 if `--check` is given and a group misses an aim."""
    words = [argument for argument in arguments if argument != "--check"]
    groups = measure_groups(pages := list(collect_prose(root)))
    named = [page for page in pages if not words or any(word in page.name for word in words)]
    print(*(f"{name:>10}" for name in Measure._fields[1:]), " name", sep="")
    for row in (*(measure(page.name, [page]) for page in named), *groups, AIMS):
        marks = (f"[{name}]" for name in missed_aims(row))
        print("".join(f"{figure:10.0f}" for figure in row[1:]), row.name, *marks)
    for page in named if words else ():
        print(*(f"{page.name}: {fault}" for fault in list_faults(page)), sep="\n")
    return int("--check" in arguments and any(map(missed_aims, groups)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
