"""Guard models that answer in a fixed format: Llama Guard and ShieldGemma.

The format must be the whole answer. Category numbers have a meaning for Llama Guard 3 and
4 only; from any other named model, an unsafe answer counts as harmful and no more.
"""

import re
from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, load_system, strongest_signal

__all__ = ["NAME", "read"]

NAME = "guard_models"
_UNSAFE = re.compile(r"\s*unsafe\s*\n\s*(S[0-9]{1,2}(?:\s*,\s*S[0-9]{1,2})*)\s*", re.IGNORECASE)
_UNSAFE_ALONE = re.compile(r"\s*unsafe\s*", re.IGNORECASE)
_NUMBERED = re.compile(r"llama-?guard-?[34]", re.IGNORECASE)
_GUARD = re.compile(r"guard|moderat|safe|shield", re.IGNORECASE)
_MAX_VERDICT_LENGTH = 200


def read(shape: ResponseShape) -> Signal | None:
    """Return the verdict of a guard model, in an answer or as bare text."""
    model = shape.body["model"].text or shape.body["modelVersion"].text or ""
    return strongest_signal(_read_verdict(words, model) for words in _find_answers(shape.body))


def _find_answers(body: Node) -> Iterator[Node]:
    """Yield the text of an answer, in the formats of servers for such models."""
    yield body
    for name in ("response", "generated_text", "content", "output"):
        yield body[name]
    yield body["message"]["content"]
    for choice in body["choices"]:
        yield choice["message"]["content"]
        yield choice["text"]
    for candidate in body["candidates"]:
        yield from (part["text"] for part in candidate["content"]["parts"])


def _read_verdict(words: Node, model: str) -> Signal | None:
    text = words.text
    if text is None or len(text) > _MAX_VERDICT_LENGTH:
        return None
    if "shieldgemma" in model.casefold():
        return _read_shield_gemma(words, text)
    # Any model can be made to write this; only a guard model means it.
    if model and not _GUARD.search(model):
        return None
    match = _UNSAFE.fullmatch(text)
    if match is not None:
        return _read_llama_guard(words, re.findall(r"S[0-9]+", match[1].upper()), model)
    if model and _UNSAFE_ALONE.fullmatch(text):
        return _harmful_signal(words, [])
    return None


def _read_llama_guard(words: Node, categories: list[str], model: str) -> Signal | None:
    if model and not _NUMBERED.search(model.replace("_", "-").replace(" ", "-")):
        return _harmful_signal(words, categories)
    judged = [load_system(NAME).interpret("llama_guard", category) for category in categories]
    return strongest_signal(_category_signal(one, words, categories) for one in judged)


def _category_signal(judged: Interpretation, words: Node, categories: list[str]) -> Signal:
    if not judged.known:
        return _harmful_signal(words, categories)
    return judged.to_signal(
        words, detail=f"unsafe: {', '.join(categories)}", evidence=_category_evidence(categories)
    )


def _harmful_signal(words: Node, categories: list[str]) -> Signal:
    judged = load_system(NAME).interpret("shield_gemma", "Yes")
    said = f"unsafe: {', '.join(categories)}" if categories else "unsafe"
    field = load_system(NAME)["llama_guard"]
    return judged._replace(field=field).to_signal(
        words, detail=said, evidence=_category_evidence(categories)
    )


def _category_evidence(categories: list[str]) -> dict[str, list[str]]:
    return {"categories": categories}


def _read_shield_gemma(words: Node, text: str) -> Signal | None:
    first = re.match(r"\s*\**(yes|no)\b", text, re.IGNORECASE)
    if first is None:
        return None
    return load_system(NAME).interpret("shield_gemma", first[1]).to_signal(words)
