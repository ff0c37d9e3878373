"""Compose a graceful refusal from a decision, a record or a refusal, for one audience.

No model is needed. A model may reword the text; its words are used only if they keep all facts
and pass a check. An audience is given only what it may see, so nothing can leak to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import msgspec

from demur.codes.registry import Registry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    RefusalClass,
    RetryScope,
    Severity,
    Verdict,
)
from demur.errors import InputError, one_line
from demur.model.decision import Decision
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal
from demur.respond.case import Audience, ComposeSource, RefusalCase, make_case, parse_audience
from demur.respond.template import (
    CONSTRAINED,
    CRISIS,
    FALLBACK_LOCALE,
    GENERAL,
    UNJUDGED,
    RefusalTemplate,
    Templates,
)
from demur.respond.template_file import builtin_templates
from demur.respond.words import GracefulRefusal, RewordResult, Variation, compose_words

_FOR_PEOPLE = (
    "text",
    "acknowledgment",
    "boundary",
    "reason",
    "alternatives",
    "engagement",
    "what_can_be_done_now",
    "how_to_proceed",
    "missing",
    "constraints",
    "resources",
    "locale",
)
_RECOVERY = ("what_can_be_done_now", "how_to_proceed", "next_step")
_OF_DECISIONS = ("verdict", "reason_codes", "reason", *_RECOVERY)
_FOR_AGENTS = ("decision_output", "decision_id", "attempts_left", "obligations")


def view(
    source: ComposeSource,
    audience: str,
    *,
    locale: str | None = FALLBACK_LOCALE,
    templates: Templates | None = None,
    persona: str | None = None,
    slots: Mapping[str, object] | None = None,
    resources: Iterable[Any] = (),
    registry: Registry | None = None,
    variation: Variation = None,
) -> dict[str, Any]:
    """Return the fields of a decision, a record or a refusal that an audience may see, as JSON.

    The settings are those of `compose`.

    Raises:
        InputError: There is no refusal, or there is no such audience or slot.
    """
    reader = parse_audience(audience)
    case = make_case(source, registry)
    slots = {**(slots or {}), **({} if persona is None else {"persona": persona})}
    wording: dict[str, Any] = {"slots": slots, "resources": resources, "variation": variation}
    words = _compose_case(case, templates, locale, **wording)
    return render_for(source, case, words, reader)


def render_for(
    source: ComposeSource, case: RefusalCase, words: GracefulRefusal, audience: Audience
) -> dict[str, Any]:
    """Return the view for an audience, given the words."""
    if audience is Audience.OPERATOR:
        return {"words": _people_view(words), **_agent_view(source, case), **_source_fields(source)}
    return _agent_view(source, case) if audience is Audience.AGENT else _people_view(words)


def _people_view(words: GracefulRefusal) -> dict[str, Any]:
    # INVARIANT: people see words alone: no code, rule, id or evidence beyond the slots.
    return {name: _to_json_value(getattr(words, name)) for name in _FOR_PEOPLE}


def _agent_view(source: ComposeSource, case: RefusalCase) -> dict[str, Any]:
    """Return the fields that a program acts on: the code, the class and the next step."""
    fields: dict[str, Any] = {
        "code": case.code,
        "refusal_class": case.group.refusal_class,
        "decided": case.group.decided,
        "advice": case.next_step,
        "retry_scope": case.retry_scope,
        "missing": case.missing,
        "constraints": case.constraints,
        "line": case.line,
    }
    wait = case.evidence.get("retry_after")
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        fields["retry_after"] = wait
    if isinstance(source, Decision | DecisionRecord):
        fields |= {name: getattr(source, name) for name in _OF_DECISIONS}
    extra = ((name, getattr(source, name, None)) for name in _FOR_AGENTS)
    fields |= {name: value for name, value in extra if value is not None}
    return {name: _to_json_value(value) for name, value in fields.items()}


def _source_fields(source: ComposeSource) -> dict[str, Any]:
    if isinstance(source, DecisionRecord):
        return {key: source[key] for key in source}
    return {key: _to_json_value(getattr(source, key)) for key in source.__struct_fields__}


def _to_json_value(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def render_text(
    source: ComposeSource, case: RefusalCase, words: GracefulRefusal, audience: Audience
) -> str:
    """Return the text for an audience: words, the refusal line and facts, or both."""
    if audience is Audience.END_USER:
        return words.text
    fields = render_for(source, case, words, audience)
    fields.pop("words", None)
    lines = [fields.pop("line")]
    for name, value in fields.items():
        plain = isinstance(value, str) and value.isprintable()
        lines.append(f"{name}: {value if plain else msgspec.json.encode(value).decode()}")
    facts = "\n".join(lines)
    return facts if audience is Audience.AGENT else f"{words.text}\n\n{facts}"


Reword: TypeAlias = Callable[[GracefulRefusal], str]
RewordCheck: TypeAlias = Callable[[str, ComposeSource], Iterable[object]]

_MAX_EXTRA_LENGTH = 400
_MAX_PROBLEMS = 10
_MAX_PROBLEM_LENGTH = 200


def reword_refusal(
    refusal: GracefulRefusal,
    case: RefusalCase,
    source: ComposeSource,
    reword: Reword,
    check: RewordCheck,
) -> GracefulRefusal:
    """Return the refusal in the words of `reword`, or as it was and why.

    If `reword` or `check` raise anything, the original words are kept.
    """
    try:
        text = reword(refusal)
        problems = list(_rewording_problems(text, refusal, case))
        problems = problems or [str(one) for one in check(text, source)]
    # Models and their clients may raise anything; the refusal must be returned all the same.
    except Exception as error:  # noqa: BLE001 - see above
        text, problems = "", [f"the rewording failed: {type(error).__name__}"]
    if problems:
        shown = tuple(one_line(one)[:_MAX_PROBLEM_LENGTH] for one in problems[:_MAX_PROBLEMS])
        return msgspec.structs.replace(refusal, polish=RewordResult(accepted=False, problems=shown))
    return msgspec.structs.replace(refusal, text=text, polish=RewordResult(accepted=True))


def _rewording_problems(text: object, refusal: GracefulRefusal, case: RefusalCase) -> Iterator[str]:
    if not isinstance(text, str) or not text.strip():
        yield "the rewording is no text"
        return
    if len(text) > 2 * len(refusal.text) + _MAX_EXTRA_LENGTH:
        yield "the rewording is much longer than what it rewords"
        return
    lost = (fact for fact in refusal.facts if fact not in text)
    yield from (f"the rewording leaves out `{fact}`" for fact in lost)
    shown = (code for code in case.codes if code in text)
    yield from (f"the rewording shows the code `{code}` to a person" for code in shown)


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
    variation: Variation = None,
) -> GracefulRefusal:
    """Return the refusal in words, with a next step; the same source always gives the same words.

    `locale` chooses the language: `de-AT` uses `de`, and a locale without templates uses `en`.
    `slots` fill slots of the template; values that are no plain phrase are left out. `resources`
    are help lines for a person in need, used before those in evidence and those of the locale:
    `en-US` names the lines of that country, and directories that serve every country.
    `polish` may reword the text; its words are used only if they keep all facts and `check`
    finds no problem, and `GracefulRefusal.polish` holds the outcome.
    `variation` chooses among the wordings of the template: a number, or a text such as a
    conversation's id. Without one, the id of the decision chooses, and `variation` says which.

    Raises:
        InputError: There is no refusal, there is no such audience or slot, or `polish` comes
            without a `check`.
        InputTypeError: `source` is neither a decision, nor a record, nor a refusal.
    """
    reader = parse_audience(audience)
    if polish is not None and check is None:
        help_text = "pass a function of text and source that returns problems, such as a linter"
        raise InputError("words are only reworded under a `check`", help=help_text)
    case = make_case(source, registry)
    slots = {**(slots or {}), **({} if persona is None else {"persona": persona})}
    wording: dict[str, Any] = {"slots": slots, "resources": resources, "variation": variation}
    words = _compose_case(case, templates, locale, **wording)
    if polish is not None and check is not None:
        words = reword_refusal(words, case, source, polish, check)
    text = render_text(source, case, words, reader)
    return msgspec.structs.replace(words, text=text, audience=reader)


def _compose_case(
    case: RefusalCase, templates: Templates | None, locale: str | None, **wording: Any
) -> GracefulRefusal:
    """Return the words of a case for people, by the templates of a locale."""
    known = builtin_templates() if templates is None else templates
    return compose_words(case, known.for_locale(locale), locale=locale, **wording)


def render(source: ComposeSource, **settings: Any) -> str:
    """Return the text of the refusal for its audience; settings as `compose`."""
    return compose(source, **settings).text


_WAY_ON = {
    RefusalClass.HARD_BLOCK: Advice.DO_NOT_RETRY,
    RefusalClass.WORKFLOW_BLOCK: Advice.REQUEST_APPROVAL,
    RefusalClass.SOFT_BLOCK: Advice.CHANGE_REQUEST,
}
_CLASS_OF: Mapping[str, RefusalClass] = {
    UNJUDGED: RefusalClass.WORKFLOW_BLOCK,
    **{template: refusal_class for refusal_class, template in GENERAL.items()},
}


class TemplateSample(NamedTuple):
    """A source, and the refusal composed from it."""

    source: ComposeSource
    refusal: GracefulRefusal


def render_samples(
    templates: Templates | None = None, registry: Registry | None = None
) -> Iterator[TemplateSample]:
    """Yield each wording of each template and locale, with nothing known but its code."""
    known = builtin_templates() if templates is None else templates
    codes = Registry.load() if registry is None else registry
    for locale, locale_templates in known.by_locale.items():
        for template in locale_templates.templates.values():
            numbers = range(len(template.variations) + 1)
            for source, number in product(_sample_sources(template, codes), numbers):
                settings: dict[str, Any] = {"locale": locale, "templates": known, "registry": codes}
                yield TemplateSample(source, compose(source, variation=number, **settings))


def _sample_sources(template: RefusalTemplate, registry: Registry) -> Iterator[ComposeSource]:
    if template.id in _CLASS_OF:
        yield _unknown_refusal(_CLASS_OF[template.id], decided=template.id != UNJUDGED)
    elif template.id == CONSTRAINED:
        yield _constrained_decision()
    elif template.id == CRISIS:
        yield Refusal.from_code("CRISIS_ESCALATION", registry=registry)
    for code in template.codes:
        if template.id != CRISIS:
            yield Refusal.from_code(code, registry=registry)


def _unknown_refusal(refusal_class: RefusalClass, *, decided: bool) -> Refusal:
    """Return a refusal with a code that has no template."""
    return Refusal(
        code="x-local/SAMPLE",  # demur: allow unregistered-code - that is the point
        refusal_class=refusal_class,
        advice=_WAY_ON[refusal_class] if decided else Advice.RETRY_LATER,
        retry_scope=RetryScope.CALL,
        severity=Severity.MEDIUM,
        decided=decided,
        registry="x-local",
    )


def _constrained_decision() -> Decision:
    return Decision(
        verdict=Verdict.ALLOW,
        reason_codes=("RISK_REDUCIBLE",),
        refusal_class=RefusalClass.SOFT_BLOCK,
        decision_output=DecisionOutput.ALLOW_CONSTRAINED,
        constraints=("dry_run",),
        reason="It is too risky in this form.",
        what_can_be_done_now="Proceed within the constraints.",
        how_to_proceed="Keep to them.",
        next_step=Advice.ACCEPT_CONSTRAINTS,
    )
