"""Find what must not leave in a model's answer. Codes: see `CODES`.

Forbidden content and signs of failed alignment (rules, as data), credentials, numbers that
stand for a person, and the system's own instructions. A whole text and the same text in
pieces (`demur.guards.output.stream`) give the same findings.

Limits: rules know mechanisms in English; what an answer means, they do not know. Refusals,
advice, news and teaching pass by what stands around the words. Each search states its own
limits in its module.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from demur.codes.reason_code import ReasonCode
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.output.encoded_text import encoded_text_search
from demur.guards.output.prompt_leak import canary_search, instructions_search
from demur.guards.output.stream_holding import OutputScanner
from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.guards.secrets.loose import LOOSE_SECRETS
from demur.guards.secrets.personal_data import personal_data_search
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.guards.secrets.secret_text import FORMATTED_SECRETS
from demur.guards.text_rules.plan import get_stream_plan
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.search import RuleSearch
from demur.guards.text_rules.seeking import TextSearch
from demur.guards.text_rules.text import MAX_TEXT_LENGTH
from demur.model.finding import Action, Finding

__all__ = ["CODES", "SURFACE", "OutputConfig", "OutputText", "check", "make_scanner"]

SURFACE = Surface.OUTPUT
CODES: tuple[str, ...] = (
    ReasonCode.OUTPUT_FORBIDDEN,
    ReasonCode.SECRET_LEAK,
    ReasonCode.PII_DETECTED,
    ReasonCode.PROMPT_LEAK,
    ReasonCode.CONTENT_PRIVACY,
    ReasonCode.CONTENT_WEAPONS,
    ReasonCode.CONTENT_CBRN,
    ReasonCode.CONTENT_CYBER,
    ReasonCode.CONTENT_CRIME,
    ReasonCode.CONTENT_FRAUD,
    ReasonCode.CONTENT_SOCIAL_ENGINEERING,
    ReasonCode.CONTENT_SELF_HARM,
    ReasonCode.CONTENT_CSAE,
    ReasonCode.CONTENT_VIOLENCE,
    ReasonCode.CONTENT_HATE,
    ReasonCode.CONTENT_HARASSMENT,
)


class OutputText(NamedTuple):
    """An answer, and the prompt that it answers, where that is known.

    Data that the prompt already holds is no leak: it is only recorded.
    """

    text: str
    prompt: str | None = None


class OutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the output guard.

    `rules` replaces the built-in ones. `secrets` looks for credentials by format and by name,
    `loose_secrets` for random words that are only recorded. `personal` is the action for
    certain personal data; None looks for none. `leak_words` words in a row of the
    `system_prompt` are a leak; a `canary_search` is a mark planted in it. `padding` is the action for a
    long run of invisible characters. `longest`: how many characters a whole answer may have.
    """

    rules: RuleSet | None = None
    secrets: bool = True
    loose_secrets: bool = True
    personal: Action | None = Action.ESCALATE
    system_prompt: str | None = None
    leak_words: int = 10
    canary: str | None = None
    padding: Action | None = Action.WARN
    longest: int = MAX_TEXT_LENGTH


_DEFAULT = OutputConfig()


def check(event: OutputText, config: OutputConfig = _DEFAULT) -> Iterator[Finding]:
    """Yield the findings in an answer, in the order of spans.

    Raises:
        InputError: The answer is no text, or has more characters than may be looked at.
    """
    if not isinstance(event.text, str):
        raise InputTypeError.wrong_type("an answer", "a text", event.text)
    if len(event.text) > config.longest:
        raise InputError(
            f"the answer has {len(event.text)} characters, more than {config.longest}",
            help="guard it as a stream, or raise `longest`",
        )
    yield from make_scanner(config, prompt=event.prompt).feed(event.text, final=True)


def make_scanner(config: OutputConfig, *, prompt: str | None = None) -> OutputScanner:
    """Return a scanner for one answer, whole or in pieces."""
    rules = builtin_rules(SURFACE) if config.rules is None else config.rules
    return OutputScanner(
        RuleSearch(get_stream_plan(rules), config.padding),
        tuple(_build_searches(config, rules)),
        surface=SURFACE,
        prompt=prompt,
    )


def _build_searches(config: OutputConfig, rules: RuleSet) -> Iterator[TextSearch]:
    if config.secrets:
        yield from (FORMATTED_SECRETS, PRIVATE_KEYS, ASSIGNED_SECRETS)
    if config.secrets and config.loose_secrets:
        yield LOOSE_SECRETS
    if config.personal is not None:
        yield personal_data_search(config.personal)
    if config.canary:
        yield canary_search(config.canary)
    if config.system_prompt:
        shown = instructions_search(config.system_prompt, config.leak_words)
        if shown:
            yield shown
    yield encoded_text_search(rules)
