"""Compose a graceful refusal from a decision, a record or a refusal. No model is needed."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from demur.codes.registry import Registry
from demur.errors import InputError
from demur.respond.audience import Audience, parse_audience
from demur.respond.case import ComposeSource, make_case
from demur.respond.graceful import GracefulRefusal
from demur.respond.loading import builtin_templates
from demur.respond.locales import FALLBACK_LOCALE
from demur.respond.polish import RewordCheck, Reword, reword_refusal
from demur.respond.template import Templates
from demur.respond.views import render_text
from demur.respond.words import compose_words

__all__ = ["compose", "render"]


def compose(
    source: ComposeSource,
    *,
    locale: str | None = FALLBACK_LOCALE,
    audience: str = Audience.END_USER,
    templates: Templates | None = None,
    persona: str | None = None,
    slots: Mapping[str, object] | None = None,
    resources: Iterable[Any] = (),
    polish: Reword | None = None,
    check: RewordCheck | None = None,
    registry: Registry | None = None,
) -> GracefulRefusal:
    """Return the refusal in words, with a next step; the same source always gives the same words.

    `locale` is negotiated: `de-AT` uses `de`, and a locale without templates uses `en`.
    `slots` fill slots of the template; values that are no plain phrase are left out. `resources`
    are help lines for a person in need, used before those in evidence and those of the locale.
    `polish` may reword the text; its words are used only if they keep all facts and `check`
    finds no problem, and `GracefulRefusal.polish` holds the outcome.

    Raises:
        InputError: Nothing was refused, there is no such audience or slot, or `polish` comes
            without a `check`.
        InputTypeError: `source` is neither a decision, nor a record, nor a refusal.
    """
    reader = parse_audience(audience)
    if polish is not None and check is None:
        help_text = "pass a function of text and source that returns problems, such as a linter"
        raise InputError("words are only reworded under a `check`", help=help_text)
    case = make_case(source, registry)
    book = (builtin_templates() if templates is None else templates).for_locale(locale)
    given = {**(slots or {}), **({} if persona is None else {"persona": persona})}
    words = compose_words(case, book, slots=given, resources=resources)
    if polish is not None and check is not None:
        words = reword_refusal(words, case, source, polish, check)
    text = render_text(source, case, words, reader)
    return msgspec.structs.replace(words, text=text, audience=reader)


def render(source: ComposeSource, **settings: Any) -> str:
    """Return the text of the refusal for its audience; settings as `compose`."""
    return compose(source, **settings).text
