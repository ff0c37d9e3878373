"""The words of one locale as data: templates with slots and branches, and common phrases."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from demur.codes.vocabulary import Advice, RefusalClass

FALLBACK_LOCALE = "en"
_LOCALE_FORM = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*\Z")


def is_locale(text: str) -> bool:
    """Return whether `text` is written like a locale: `de`, `pt-BR`, `zh-Hant-TW`."""
    return len(text) <= 35 and _LOCALE_FORM.match(text) is not None


def wider_locales(locale: str) -> Iterator[str]:
    """Yield a locale and those that contain it, nearest first: `de-AT`, then `de`."""
    parts = locale.split("-")
    while parts:
        yield "-".join(parts)
        parts.pop()


def negotiate_locale(locale: str | None, available: Iterable[str]) -> str:
    """Return the available locale that is nearest, however it is written: `de_AT.UTF-8` is `de`."""
    by_fold = {one.casefold(): one for one in available}
    requested = re.split(r"[.@]", locale or "", maxsplit=1)[0].strip().replace("_", "-").casefold()
    nearest = (by_fold[one] for one in wider_locales(requested) if one in by_fold)
    return next(nearest, FALLBACK_LOCALE) if is_locale(requested) else FALLBACK_LOCALE


CRISIS = "crisis"
UNJUDGED = "could_not_judge"
CONSTRAINED = "within_limits"
# The template of a class, for codes without a template of their own.
GENERAL: Mapping[RefusalClass, str] = {
    RefusalClass.HARD_BLOCK: "general_hard",
    RefusalClass.WORKFLOW_BLOCK: "general_workflow",
    RefusalClass.SOFT_BLOCK: "general_soft",
}
# The slots that each phrase must hold, so that no part is lost.
PHRASES: Mapping[str, tuple[str, ...]] = {
    "because": ("boundary", "reason"),
    "offer": ("list",),
    **dict.fromkeys(("comma", "or", "gap", "stop"), ()),
    **dict.fromkeys(("missing", "constraints", "resources", "unnamed"), ()),
    **dict.fromkeys(("second", "seconds", "minute", "minutes", "hour", "hours"), ("n",)),
}
# Facts that a branch can wait for besides slots.
CONDITIONS = ("missing", "constraints", "held_answer", "from_user")


class SlotKind(StrEnum):
    """The kind of value in a slot: a phrase, a name, a path, seconds to wait, or a listed word."""

    WORDS = "words"
    NAME = "name"
    PATH = "path"
    DURATION = "duration"
    CHOICE = "choice"


class Slot(NamedTuple):
    """A slot in a text: filled by the caller, else from evidence, else with a default.

    A `choice` holds one of its `words`, looked up by the value.
    """

    kind: SlotKind
    evidence: str | None = None
    default: str | None = None
    words: Mapping[str, str] = {}


class Wording(NamedTuple):
    """The texts of a template, or those that a branch puts in their place."""

    acknowledgment: str | None = None
    boundary: str | None = None
    reason: str | None = None
    alternatives: tuple[str, ...] = ()
    engagement: str | None = None
    how_to_proceed: str | None = None


class Branch(NamedTuple):
    """Texts that replace the template's own once all its conditions hold.

    A single alternative does not replace the template's own: it is offered before them.
    """

    when: tuple[str, ...]
    wording: Wording


class TemplateGroup(NamedTuple):
    """The class and `decided` flag that all codes of a template share."""

    refusal_class: RefusalClass
    decided: bool


class RefusalTemplate(NamedTuple):
    """The words for some codes of one group; general templates serve all other codes.

    `variations` say the same in other words. A template that `asks` refuses nothing: its text is
    the acknowledgment and one question.
    """

    id: str
    wording: Wording
    codes: tuple[str, ...] = ()
    group: TemplateGroup | None = None
    slots: Mapping[str, Slot] = {}
    branches: tuple[Branch, ...] = ()
    variations: tuple[Wording, ...] = ()
    resources: bool = False
    asks: bool = False
    where: str = ""


class LocaleTemplates(NamedTuple):
    """All templates and phrases of one locale."""

    locale: str
    phrases: Mapping[str, str]
    names: Mapping[str, str]
    advice: Mapping[Advice, str]
    resources: tuple[str, ...]
    slots: Mapping[str, Slot]
    branches: tuple[Branch, ...]
    templates: Mapping[str, RefusalTemplate]

    def layered_over(self, base: "LocaleTemplates") -> "LocaleTemplates":
        """Return these templates with missing ones filled in from `base`."""
        return self._replace(
            phrases={**base.phrases, **self.phrases},
            names={**base.names, **self.names},
            advice={**base.advice, **self.advice},
            resources=self.resources or base.resources,
            slots={**base.slots, **self.slots},
            branches=(*self.branches, *base.branches),
            templates={**base.templates, **self.templates},
        )

    def template_for(self, code: str) -> RefusalTemplate | None:
        """Return the template that lists `code`; of several, the one that was added last."""
        found = [one for one in self.templates.values() if code in one.codes]
        return found[-1] if found else None

    def has_slot(self, name: str) -> bool:
        """Return whether any text of the locale has a slot of this name."""
        return name in self.slots or any(name in one.slots for one in self.templates.values())


class Templates(NamedTuple):
    """The templates of all locales."""

    by_locale: Mapping[str, LocaleTemplates]

    @property
    def locales(self) -> tuple[str, ...]:
        """The available locales."""
        return tuple(self.by_locale)

    def for_locale(self, locale: str | None) -> LocaleTemplates:
        """Return the templates for a locale: the nearest wider one, or the English one."""
        return self.by_locale[negotiate_locale(locale, self.by_locale)]


PART_NAMES = Wording._fields
MIN_ALTERNATIVES = 2
MAX_PART_LENGTH = 240

_ASKS = ("?", "\N{FULLWIDTH QUESTION MARK}")
_ENDS = (*_ASKS, ".", "!", "…", "。", "\N{FULLWIDTH EXCLAMATION MARK}")
# Parts that are joined into a sentence with others.
_CLAUSES: Mapping[str, str] = {
    "boundary": "the boundary is joined with the reason into one sentence",
    "reason": "the reason is one clause, joined with the boundary",
    "alternatives": "alternatives are joined into one sentence",
}


class _TextProblem(NamedTuple):
    problem: str
    help: str | None


def find_text_problem(part: str, text: str) -> _TextProblem | None:
    """Return the problem with the form of one part, or None."""
    if len(text) > MAX_PART_LENGTH or not text.isprintable():
        return _TextProblem(f"`{part}` is one line of at most {MAX_PART_LENGTH} characters", None)
    if text != text.strip():
        return _TextProblem(f"`{part}` begins or ends with a space", None)
    if part in _CLAUSES:
        problem = _TextProblem(f"`{part}` holds the end of a sentence", _CLAUSES[part])
        return problem if any(mark in text for mark in _ENDS) else None
    if part == "engagement" and not text.endswith(_ASKS):
        return _TextProblem("`engagement` asks nothing", "end it with a question")
    if not text.endswith(_ENDS):
        return _TextProblem(f"`{part}` is a whole sentence", "end it with a full stop")
    return None
