"""Which language to answer in: the nearest there are words for."""

import re
from collections.abc import Iterable, Iterator

__all__ = ["FALLBACK_LOCALE", "is_locale", "negotiate_locale", "wider_locales"]

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
    asked = re.split(r"[.@]", locale or "", maxsplit=1)[0].strip().replace("_", "-").casefold()
    nearest = (by_fold[one] for one in wider_locales(asked) if one in by_fold)
    return next(nearest, FALLBACK_LOCALE) if is_locale(asked) else FALLBACK_LOCALE
