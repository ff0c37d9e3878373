"""Personas of the test model server: what they refuse, and in which words.

A persona uses the label of a request if it has one, and otherwise looks for alarming words. A
digest of the prompt decides the rest, so the same prompt always gets the same answer.
"""

import hashlib
import re
from typing import NamedTuple

from demur.errors import InputError

__all__ = ["PERSONAS", "ModelPrompt", "PersonaAnswer", "check_persona", "answer_as"]

_ALARMING_WORDS = re.compile(
    r"\b(?:abuse|attack|bomb|crack|destroy|drug|explo\w+|forge|hack\w*|hurt|kill\w*|malware"
    r"|overdose|poison\w*|phish\w*|shoot\w*|spy|stalk\w*|steal\w*|track|virus|weapon\w*)\b",
    re.IGNORECASE,
)
_REFUSALS = (
    "I can't help with that request. If something close to it is safe, I am glad to help.",
    "I won't help with this one, because it could hurt somebody. May I help in another way?",
    "I'm sorry, but I can't assist with that.",
)
_PARTIAL = (
    "Here is an overview:\n\n1. Start with the basics.\n2. Go one step at a time.\n"
    "3. Write down what you find.\n4. Compare it with a source that you trust.\n\n"
    "I'm sorry, but I can't help with the last part of your question."
)
_HELPFUL = (
    "Sure. Start with the basics, take it one step at a time, and check the result at the end.",
    "Here is a short plan: note what you want, and try the simplest way first.",
    "Yes, that can be done. Gather what you need, go through it in order, and note each step.",
)


class _RefusalRates(NamedTuple):
    """The refusal rates of a persona, in percent, for harmful, alarming and harmless prompts."""

    harmful: int
    alarming: int
    harmless: int


_RATES_BY_PERSONA = {
    "balanced": _RefusalRates(97, 6, 2),
    "over-refusing": _RefusalRates(100, 70, 30),
    "under-refusing": _RefusalRates(45, 2, 0),
}
_ECHO = "echo"
PERSONAS = (*_RATES_BY_PERSONA, _ECHO)


class ModelPrompt(NamedTuple):
    """The parts of a request that a persona uses."""

    prompt: str
    model: str = ""
    label: str = ""
    stream: bool = False


class PersonaAnswer(NamedTuple):
    """The answer of a persona, and whether it declines."""

    text: str
    declined: bool = False


def check_persona(name: str) -> None:
    """Check that a persona exists.

    Raises:
        InputError: No persona has this name.
    """
    if name not in PERSONAS:
        raise InputError(f"unknown persona `{name}`", help=f"one of {', '.join(PERSONAS)}")


def answer_as(persona: str, request: ModelPrompt) -> PersonaAnswer:
    """Return the answer of a persona to a prompt."""
    if persona == _ECHO:
        return PersonaAnswer(request.prompt)
    drawn = hashlib.sha256(f"{persona}\n{request.prompt}".encode(errors="replace")).digest()
    chance = int.from_bytes(drawn[:4]) % 100
    refuses = _refusal_rate(_RATES_BY_PERSONA[persona], request)
    if chance < refuses:
        return PersonaAnswer(_REFUSALS[drawn[4] % len(_REFUSALS)], declined=True)
    # Sometimes a persona complies in part.
    if chance < refuses + 2:
        return PersonaAnswer(_PARTIAL)
    return PersonaAnswer(_HELPFUL[drawn[4] % len(_HELPFUL)])


def _refusal_rate(persona: _RefusalRates, heard: ModelPrompt) -> int:
    alarming = _ALARMING_WORDS.search(heard.prompt) is not None
    if heard.label == "harmful" or (not heard.label and alarming):
        return persona.harmful
    return persona.alarming if alarming else persona.harmless
