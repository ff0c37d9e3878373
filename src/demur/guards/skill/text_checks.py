"""Checks on text of any file: commands, instructions to an agent, hidden text, credentials.

Every check takes plain text. Only `find_lookalikes` is for Python, where a letter of another
alphabet makes another name.
"""

import io
import re
import tokenize
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple, TypeVar

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check, find_secrets
from demur.guards.rule_matching import PLAIN_READING, scan_text
from demur.guards.skill.rules import SkillHit, soften_action
from demur.guards.text_rules import builtin_rules
from demur.model.finding import Action, Span


def find_instructions(text: str) -> Iterator[SkillHit]:
    """Yield the instructions in `text` that try to take over an agent."""
    try:
        hits = scan_text(text, builtin_rules(Surface.SKILL))
    except InputError as error:
        yield SkillHit("UNPARSED", 0, 0, error.problem[:100])
        return
    for rule, start, end, via in hits:
        evidence = {} if via == PLAIN_READING else {"via": via}
        yield SkillHit(rule.id, start, end, rule.description, evidence, rule.code, rule.action)


_CONFIG = CommandConfig()
_DESTRUCTIVE = (ReasonCode.IRRECOVERABLE_DESTRUCTION, ReasonCode.UNAPPROVED_DESTRUCTION)
_NARROW = re.compile(r"[^/~$\\%].*|~/\.[^/*]+/[^*].*", re.DOTALL)


def scan_shell(text: str, language: Language = Language.SHELL) -> Iterator[SkillHit]:
    """Yield the hits for the commands in `text`.

    The folder that a script will run in is unknown. So a deletion of a relative path, or of a
    tool's own hidden folder, waits for approval.
    """
    for finding in check(Command(text=text, language=language), _CONFIG):
        span = finding.span or Span(start=0, end=0)
        rule = str(finding.evidence.get("rule", finding.code))
        evidence, code = finding.evidence, finding.code
        target = str(evidence.get("target", ""))
        action = finding.action
        if code in _DESTRUCTIVE and _NARROW.fullmatch(target):
            code, action = ReasonCode.UNAPPROVED_DESTRUCTION, soften_action(action)
        yield SkillHit(rule, span.start, span.end, finding.detail, evidence, code, action)


# A value that is secret only by its name is often an example or a placeholder.
_DOUBTFUL = "assigned secret"
_MAX_SEARCHED_LENGTH = 2_000_000


def find_credentials(text: str) -> Iterator[SkillHit]:
    """Yield the credentials in `text`, each by its kind and never by its value."""
    end = 0
    matches = find_secrets(text[:_MAX_SEARCHED_LENGTH])
    for match in sorted(matches, key=lambda match: (match.start, -match.end)):
        if match.start < end:
            continue
        end = match.end
        kind = str(match.evidence["kind"])
        action = Action.WARN if kind == _DOUBTFUL else soften_action(match.action)
        detail, evidence = f"holds a credential: {kind}", {"kind": kind}
        yield SkillHit("CREDENTIAL", match.start, end, detail, evidence, action=action)


_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]+")
_OPENS = "\u202a\u202b\u202d\u202e"
_ISOLATES = "\u2066\u2067\u2068"
# Zero-width characters, in runs or inside a Latin word; other scripts need joiners.
_INVISIBLE = re.compile(
    "[\u200b\u2060-\u2064\u180e\ufeff]{2,}|(?<=[A-Za-z])[\u200b-\u200d\u2060\u00ad\ufeff](?=[A-Za-z])"
)
# Tag characters can spell any ASCII text; region flags use them after a black flag.
_TAGS = re.compile("(?<!\U0001f3f4)[\U000e0020-\U000e007e]{2,}(?![\U000e0020-\U000e007f])")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_BLOB = re.compile(
    r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{4000,}"
    r"|(?<!\\x[0-9a-fA-F]{2})(?:\\x[0-9a-fA-F]{2}){500,}"
)
_DECODES = re.compile(r"b(?:64|85|32|16)decode|fromhex|unhexlify|decompress|a2b_")
_MAX_MATCHES = 20
_Item = TypeVar("_Item")


def find_strange_characters(text: str, *, code: bool) -> Iterator[SkillHit]:
    """Yield reordered or invisible text; in code it weighs more than in prose."""
    if text.isascii():
        return
    yield from _take_first(_find_bidi(text, code=code))
    for found in _take_first(_INVISIBLE.finditer(text)):
        action = None if code else Action.WARN
        yield _hit_at("TEXT_INVISIBLE", found, "zero-width characters", action)
    for found in _take_first(_TAGS.finditer(text)):
        yield _hit_at("HIDDEN_ORDER", found, "text written in invisible tag characters")
    for found in _take_first(_SELECTORS.finditer(text)):
        detail = "a run of variation selectors, which can carry data"
        yield _hit_at("TEXT_INVISIBLE", found, detail)


def _hit_at(rule: str, found: re.Match[str], detail: str, action: Action | None = None) -> SkillHit:
    return SkillHit(rule, *found.span(), detail, {"technique": detail}, action=action)


def _take_first(items: Iterable[_Item]) -> Iterator[_Item]:
    """Yield the first few of `items`; more would add nothing."""
    return islice(items, _MAX_MATCHES)


def _find_bidi(text: str, *, code: bool) -> Iterator[SkillHit]:
    """Yield the first bidi control of each line; balanced ones weigh less."""
    done = 0
    for found in _BIDI.finditer(text):
        if found.start() < done:
            continue
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        done = end if end >= 0 else len(text)
        open_action = None if code else Action.ESCALATE
        action = Action.WARN if _is_closed(text[start:done]) else open_action
        yield _hit_at("TEXT_BIDI", found, "characters that change the order of the text", action)


def _is_closed(line: str) -> bool:
    opened = sum(line.count(mark) for mark in _OPENS)
    isolated = sum(line.count(mark) for mark in _ISOLATES)
    overrides = "\u202e" in line or "\u202d" in line
    return not overrides and opened == line.count("\u202c") and isolated == line.count("\u2069")


def find_lookalikes(text: str) -> Iterator[SkillHit]:
    """Yield names in Python code that look like other names or normalise to them."""
    if text.isascii():
        return
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            name = token.string
            if token.type == tokenize.NAME and (detail := _describe_disguise(name)):
                start = starts[token.start[0] - 1] + token.start[1]
                evidence = {"technique": "look-alike name"}
                yield SkillHit("TEXT_LOOKALIKE", start, start + len(name), detail, evidence)
    except (tokenize.TokenError, SyntaxError, IndexError):
        # The parser reports broken files.
        return


def _describe_disguise(name: str) -> str | None:
    if name.isascii():
        return None
    plain = unicodedata.normalize("NFKC", name)
    if plain.isascii() and len(plain) > 1:
        return f"a name that is read as `{plain[:40]}`"
    letters = (unicodedata.name(letter, "") for letter in name if letter.isalpha())
    scripts = {letter.partition(" ")[0] for letter in letters}
    return "a name in two alphabets" if len(scripts & {"LATIN", "CYRILLIC", "GREEK"}) > 1 else None


def find_blobs(text: str) -> Iterator[SkillHit]:
    """Yield long encoded texts in a file that calls a decoder."""
    if not _DECODES.search(text):
        return
    for found in _take_first(_BLOB.finditer(text)):
        yield _hit_at("PY_BLOB", found, "a long encoded text that is decoded here")


_OPEN, _CLOSE = "<!--", "-->"
_STYLED = re.compile(
    r"<(?P<tag>[a-z]{1,20})\b[^>]{0,200}style\s*=\s*[\"'][^\"']{0,200}"
    r"(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])"
    r"|color\s*:\s*(?:white|#fff(?:fff)?|transparent)\b)"
    r"[^\"']{0,200}[\"'][^>]{0,200}>(?P<text>.{0,4000}?)</(?P=tag)\s*>",
    re.IGNORECASE | re.DOTALL,
)
# Words that address the agent.
_ADDRESSED = re.compile(
    r"\b(?:ai|assistant|agent|claude|chatgpt|gpt|copilot|gemini|language model|llm)\b"
    r"(?:[^.\n]{0,60}\b(?:must|should|always|never|do not|don't|ignore|please)\b|\s*:)"
    r"|\byou (?:must|should always|are now)\b",
    re.IGNORECASE,
)
_MIN_STYLED_LENGTH = 20


class _HiddenText(NamedTuple):
    start: int
    end: int
    # The text that a style hides; empty for a comment.
    styled: str


def find_hidden_text(text: str, orders: Sequence[SkillHit]) -> Iterator[SkillHit]:
    """Yield `orders`, with a block for each hidden one, and other hidden texts."""
    styles = (_HiddenText(*match.span(), match["text"]) for match in _STYLED.finditer(text))
    hidden = sorted({*_find_comments(text), *styles})
    starts = [part.start for part in hidden]
    ends = [0, *accumulate((part.end for part in hidden), max)]
    for order in orders:
        inside = order.end <= ends[bisect_right(starts, order.start)]
        yield order._replace(action=Action.BLOCK) if inside else order
    order_starts = sorted(order.start for order in orders)
    for start, end, styled in hidden:
        place = bisect_left(order_starts, start)
        if place < len(order_starts) and order_starts[place] < end:
            continue  # the order itself is reported
        if _ADDRESSED.search(text, start, end):
            yield SkillHit("HIDDEN_TEXT", start, end, "hidden text that speaks to an agent")
        elif len(styled.strip()) > _MIN_STYLED_LENGTH:
            detail = "text that a style keeps from view"
            yield SkillHit("HIDDEN_TEXT", start, end, detail, action=Action.WARN)


def _find_comments(text: str) -> Iterator[_HiddenText]:
    start = text.find(_OPEN)
    while start >= 0:
        close = text.find(_CLOSE, start)
        # An open comment hides the rest of the file.
        end = len(text) if close < 0 else close + len(_CLOSE)
        yield _HiddenText(start, end, "")
        start = text.find(_OPEN, end)
