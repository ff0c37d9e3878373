"""The words of one language as data: templates, their slots and branches, and common phrases."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from demur.codes.vocabulary import Advice, RefusalClass
from demur.respond.locales import negotiate_locale

__all__ = [
    "CONDITIONS",
    "CONSTRAINED",
    "CRISIS",
    "GENERAL",
    "PHRASES",
    "UNJUDGED",
    "LocaleTemplates",
    "Branch",
    "TemplateGroup",
    "Slot",
    "SlotKind",
    "RefusalTemplate",
    "Templates",
    "Wording",
]

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
    "comma": (),
    "or": (),
    "gap": (),
    "stop": (),
    "missing": (),
    "constraints": (),
    "resources": (),
    "unnamed": (),
    "second": ("n",),
    "seconds": ("n",),
    "minute": ("n",),
    "minutes": ("n",),
    "hour": ("n",),
    "hours": ("n",),
}
# Facts that a branch can wait for besides slots.
CONDITIONS = ("missing", "constraints", "held_answer")


class SlotKind(StrEnum):
    """The kind of value in a slot: a phrase, a name, a file path, or seconds to wait."""

    WORDS = "words"
    NAME = "name"
    PATH = "path"
    DURATION = "duration"


class Slot(NamedTuple):
    """A slot in a text: filled by the caller, else from evidence, else with a default."""

    kind: SlotKind
    evidence: str | None = None
    default: str | None = None


class Wording(NamedTuple):
    """The texts of a template, or those that a branch puts in their place."""

    acknowledgment: str | None = None
    boundary: str | None = None
    reason: str | None = None
    alternatives: tuple[str, ...] = ()
    engagement: str | None = None
    how_to_proceed: str | None = None


class Branch(NamedTuple):
    """Texts that replace the template's own once all its conditions hold."""

    when: tuple[str, ...]
    wording: Wording


class TemplateGroup(NamedTuple):
    """The class and `decided` flag that all codes of a template share."""

    refusal_class: RefusalClass
    decided: bool


class RefusalTemplate(NamedTuple):
    """The words for some codes of one group; general templates serve all other codes."""

    id: str
    wording: Wording
    codes: tuple[str, ...] = ()
    group: TemplateGroup | None = None
    slots: Mapping[str, Slot] = {}
    branches: tuple[Branch, ...] = ()
    resources: bool = False
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
        return LocaleTemplates(
            locale=self.locale,
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
