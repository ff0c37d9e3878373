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
from demur.respond.locales import wider_locales

__all__ = ["compliant_template", "graceful_refusal", "helpful_template", "refusal_code"]

_OTHER_CODE = "CONTENT_OTHER"
_MAX_TASK_LENGTH = 240


def helpful_template(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a helpful answer, or None if there is no template in the language.

    A digest of the prompt picks the template, so that the choice is stable but varied.
    """
    return _fill_template("helpful", prompt, language)


def compliant_template(prompt: str, language: str = "en") -> str | None:
    """Return the beginning of a compliant answer, for harmful answers that were not kept."""
    return _fill_template("going_along", prompt, language)


def refusal_code(category: str) -> str:
    """Return the reason code of a category: a content code, or a code in lower case."""
    word = category.strip().upper().replace("-", "_").replace(" ", "_")
    registry = default_registry()
    return next((code for code in (f"CONTENT_{word}", word) if code in registry), _OTHER_CODE)


def graceful_refusal(code: str, language: str = "en") -> str | None:
    """Return a composed refusal, or None if there is none in the language."""
    words = compose(Refusal.from_code(code), locale=language)
    return words.text if words.locale in wider_locales(language) else None


@cache
def _load_templates() -> dict[str, dict[str, list[str]]]:
    text = (files("demur.evals") / "remediate_words.yaml").read_text(encoding="utf-8")
    words: dict[str, dict[str, list[str]]] = yaml.safe_load(text)
    return words


def _fill_template(kind: str, prompt: str, language: str) -> str | None:
    by_language = _load_templates()[kind]
    known = next((one for one in wider_locales(language) if one in by_language), None)
    if known is None:
        return None
    ways = by_language[known]
    drawn = hashlib.sha256(prompt.encode(errors="replace")).digest()[0]
    return ways[drawn % len(ways)].format(task=_shorten_task(prompt))


def _shorten_task(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= _MAX_TASK_LENGTH else f"{line[: _MAX_TASK_LENGTH - 1].rstrip()}…"
