"""What should have been answered, where nobody wrote it: willingness, and graceful refusals.

The helpful words restate the task and offer a way to it. They teach that the request is fine,
not how it is done; better answers come from a better model or from people.
"""

import hashlib
from functools import cache
from importlib.resources import files

import yaml

from demur.codes.default import default_registry
from demur.model.refusal import Refusal
from demur.respond.compose import compose
from demur.respond.locales import wider

__all__ = ["going_along", "graceful_refusal", "helpful_template", "refusal_code"]

_OTHER = "CONTENT_OTHER"
_LONGEST_TASK = 240


def helpful_template(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a helpful answer, or None if there is no template in the language.

    A digest of the prompt picks the template, so that the choice is stable but varied.
    """
    return _said("helpful", prompt, language)


def going_along(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a compliant answer, for harmful answers that were not kept."""
    return _said("going_along", prompt, language)


def refusal_code(category: str) -> str:
    """Return the reason code of a category: a content code, or a code in lower case."""
    word = category.strip().upper().replace("-", "_").replace(" ", "_")
    registry = default_registry()
    return next((code for code in (f"CONTENT_{word}", word) if code in registry), _OTHER)


def graceful_refusal(code: str, language: str = "en") -> str | None:
    """Return a composed refusal, or None if there is none in the language."""
    words = compose(Refusal.of(code), locale=language)
    return words.text if words.locale in wider(language) else None


@cache
def _words() -> dict[str, dict[str, list[str]]]:
    text = (files("demur.evals") / "remediate_words.yaml").read_text(encoding="utf-8")
    words: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return words


def _said(kind: str, prompt: str, language: str) -> str | None:
    by_language = _words()[kind]
    known = next((one for one in wider(language) if one in by_language), None)
    if known is None:
        return None
    ways = by_language[known]
    drawn = hashlib.sha256(prompt.encode(errors="replace")).digest()[0]
    return ways[drawn % len(ways)].format(task=_task(prompt))


def _task(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= _LONGEST_TASK else f"{line[: _LONGEST_TASK - 1].rstrip()}…"
