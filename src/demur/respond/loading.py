"""Load the words of a locale: every problem at once, each with its place and help.

Built-in words and a user's own pass the same checks. A user's file lies over the built-in
book of its locale and may hold as little as one template; a new locale must be able to
answer every code, so it brings all general templates and phrases.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice
from demur.errors import ManyProblemsError
from demur.respond.locales import wider_locales
from demur.respond.sheet import TemplateReader
from demur.respond.template import (
    CONSTRAINED,
    CRISIS,
    GENERAL,
    PHRASES,
    UNJUDGED,
    LocaleTemplates,
    Templates,
)
from demur.source.reading import read_source, read_text

__all__ = ["TemplateError", "builtin_templates", "load_templates", "parse_templates"]

BUILTIN_LOCALES = ("en", "de", "es", "fr", "ja")
_REQUIRED_TEMPLATES = (*GENERAL.values(), UNJUDGED, CONSTRAINED, CRISIS)


class TemplateError(ManyProblemsError):
    """A template file that cannot be used."""


class _BuiltinTemplates(Mapping[str, LocaleTemplates]):
    """The built-in templates, each locale read on first use: most programs need only one."""

    def __getitem__(self, locale: str) -> LocaleTemplates:
        if locale not in BUILTIN_LOCALES:
            raise KeyError(locale)
        return _read_builtin(locale)

    def __iter__(self) -> Iterator[str]:
        return iter(BUILTIN_LOCALES)

    def __len__(self) -> int:
        return len(BUILTIN_LOCALES)


class _LayeredTemplates(Mapping[str, LocaleTemplates]):
    """Templates layered over others, which are not read for that."""

    def __init__(
        self, own: Mapping[str, LocaleTemplates], base: Mapping[str, LocaleTemplates]
    ) -> None:
        self._own = own
        self._base = base

    def __getitem__(self, locale: str) -> LocaleTemplates:
        return self._own[locale] if locale in self._own else self._base[locale]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._base, *self._own)))

    def __len__(self) -> int:
        return len({*self._base, *self._own})


@cache
def _read_builtin(locale: str) -> LocaleTemplates:
    name = f"{locale}.yaml"
    text = (files("demur.respond") / "templates" / name).read_text(encoding="utf-8")
    return parse_templates(text, name, base=Templates({}), registry=_core_registry()).by_locale[
        locale
    ]


@cache
def _core_registry() -> Registry:
    return Registry.load()


def builtin_templates() -> Templates:
    """Return the built-in templates."""
    return Templates(_BuiltinTemplates())


def load_templates(
    *paths: Path | str, base: Templates | None = None, registry: Registry | None = None
) -> Templates:
    """Return the templates in the files at `paths`, over those in `base` or the built-in ones.

    Raises:
        TemplateError: A file cannot be read or used; carries every problem.
    """
    found = builtin_templates() if base is None else base
    for path in paths:
        text = read_text(path, "templates", TemplateError)
        found = parse_templates(text, str(path), base=found, registry=registry)
    return found


def parse_templates(
    text: str,
    name: str = "templates",
    *,
    base: Templates | None = None,
    registry: Registry | None = None,
) -> Templates:
    """Return the templates in `text`, called `name` in errors, over those in `base`.

    Raises:
        TemplateError: They cannot be used; carries every problem.
    """
    known = builtin_templates() if base is None else base
    source = read_source(name, text, TemplateError)
    reader = TemplateReader(default_registry() if registry is None else registry)
    locale = reader.read_locale(source)
    beneath = next(
        (known.by_locale[one] for one in wider_locales(locale) if one in known.by_locale), None
    )
    book = reader.read_locale_templates(source, locale, beneath)
    whole = book if beneath is None else book.layered_over(beneath)
    source.raise_problems(TemplateError)
    for problem in _find_gaps(whole):
        source.report(problem, "every code must have words; `en` shows them all")
    source.raise_problems(TemplateError)
    return Templates(_LayeredTemplates({locale: whole}, known.by_locale))


def _find_gaps(book: LocaleTemplates) -> Iterator[str]:
    """Yield what is missing in a locale that must answer every code."""
    lacking = {
        "templates": [name for name in _REQUIRED_TEMPLATES if name not in book.templates],
        "phrases": [name for name in PHRASES if name not in book.phrases],
        "advice": [str(advice) for advice in Advice if advice not in book.advice],
        "resources": [] if book.resources else ["at least one place that helps"],
    }
    for key, names in lacking.items():
        if names:
            yield f"`{key}` of a new locale lack {', '.join(names)}"
