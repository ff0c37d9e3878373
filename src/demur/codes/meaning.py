"""What each word of the closed vocabularies means, in one short sentence.

The reference pages, `demur codes explain` and the vocabulary page all speak
with these words, so that they say the same thing everywhere.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from demur.codes.entry import Entry
from demur.codes.vocabulary import (
    Advice,
    DecisionOutput,
    Effect,
    GrantKind,
    Obligation,
    RefusalClass,
    RetryScope,
    Severity,
    Stability,
    Surface,
    Verdict,
)

__all__ = [
    "ADVICE_MEANING",
    "CLASS_MEANING",
    "EFFECT_MEANING",
    "FAMILY_MEANING",
    "GRANT_MEANING",
    "OBLIGATION_MEANING",
    "OUTPUT_MEANING",
    "RETRY_SCOPE_MEANING",
    "SEVERITY_MEANING",
    "STABILITY_MEANING",
    "SURFACE_MEANING",
    "VERDICT_MEANING",
    "VOCABULARIES",
    "Vocabulary",
    "entry_headline",
    "describe_replacement",
    "describe_next_step",
    "describe_deprecation",
    "describe_class",
]

CLASS_MEANING: Mapping[RefusalClass, str] = {
    RefusalClass.HARD_BLOCK: "Nothing lifts it: no approval, no context, no limit.",
    RefusalClass.WORKFLOW_BLOCK: "It is lifted by supplying what is missing.",
    RefusalClass.SOFT_BLOCK: "It is lifted by accepting limits on what is done.",
}

ADVICE_MEANING: Mapping[Advice, str] = {
    Advice.DO_NOT_RETRY: "Stop here, and do not send it again in these or other words.",
    Advice.CHANGE_REQUEST: "Change what is asked for, not only how it is worded, and ask again.",
    Advice.PROVIDE_CONTEXT: "Supply what is missing, then send the request again.",
    Advice.ACCEPT_CONSTRAINTS: "Accept the limits that are offered, and the action runs in them.",
    Advice.REQUEST_APPROVAL: "Ask someone who may approve it, and go on once they have.",
    Advice.RETRY_LATER: "Wait, then send the same request again.",
    Advice.RESET_CONTEXT: "Drop the context that carries the problem and start from a clean one.",
    Advice.USE_OTHER_MODEL: "Send the request to another model; this one will not serve it.",
    Advice.ESCALATE_OPERATOR: (
        "Hand it to whoever runs the system; neither the agent nor its user can settle it."
    ),
}

RETRY_SCOPE_MEANING: Mapping[RetryScope, str] = {
    RetryScope.CALL: "Only this call is refused; another one may pass.",
    RetryScope.RULE: "Every variant of the call that the same rule covers is refused too.",
    RetryScope.SESSION: "The whole session is refused until the cause is gone.",
}

SEVERITY_MEANING: Mapping[Severity, str] = {
    Severity.INFO: "Worth recording; there is nothing to act on.",
    Severity.LOW: "Routine; only a change in numbers is news.",
    Severity.MEDIUM: "Worth a look when it becomes frequent.",
    Severity.HIGH: "Someone should look at it the same day.",
    Severity.CRITICAL: "Someone should look at it now.",
}

EFFECT_MEANING: Mapping[Effect, str] = {
    Effect.REFUSE: "The code speaks against the action.",
    Effect.ALLOW: "The code speaks for the action.",
}

STABILITY_MEANING: Mapping[Stability, str] = {
    Stability.PREVIEW: "It may still change or go; do not alert on it yet.",
    Stability.STABLE: "It keeps its meaning for as long as this registry is read.",
    Stability.DEPRECATED: "It still parses and keeps its meaning, but nothing new should use it.",
}

SURFACE_MEANING: Mapping[Surface, str] = {
    Surface.INPUT: "Text from a user, before the model sees it.",
    Surface.OUTPUT: "Text from the model, before anyone sees it.",
    Surface.TOOL_CALL: "A tool's name and arguments, before it is called.",
    Surface.TOOL_LOOP: "The history of calls: repeats, cycles and spent allowances.",
    Surface.TOOL_RESULT: "What a tool gave back, before it enters the context.",
    Surface.RETRIEVAL: "Documents that a search brought in, before they enter the context.",
    Surface.SKILL: "The files of a skill or plugin, before it is installed or loaded.",
    Surface.COMPACTION: "A context before and after it was summarised.",
    Surface.CODE_EXECUTION: "A command or program, before it runs.",
    Surface.RATE: "Counts of requests, calls or tokens over time.",
    Surface.POLICY: "A rule of the deployment's policy.",
    Surface.MEMORY: "The likeness to earlier actions whose outcome is known.",
    Surface.MODEL: "The model or its provider, which declined by itself.",
    Surface.RUNTIME: "The machinery that decides, when a part of it fails.",
}

GRANT_MEANING: Mapping[GrantKind, str] = {
    GrantKind.APPROVAL: "Someone who may decide has agreed to the action.",
    GrantKind.AUTHORIZATION: "The caller holds a right that the action needs.",
    GrantKind.CONTEXT: "A fact that the decision waited for is vouched for.",
    GrantKind.QUOTA: "An allowance is raised or refilled.",
    GrantKind.SCOPE: "The targets and limits of the action are laid down.",
    GrantKind.TOOL: "A tool, or a definition of one, is trusted.",
}

OBLIGATION_MEANING: Mapping[Obligation, str] = {
    Obligation.CRISIS_RESOURCES: "The answer names places where help can be found.",
    Obligation.HUMAN_REVIEW: "A person looks at the case.",
}

VERDICT_MEANING: Mapping[Verdict, str] = {
    Verdict.ALLOW: "Nothing speaks against the action, or limits take care of what does.",
    Verdict.ESCALATE: "The action waits for something that is missing.",
    Verdict.ABSTAIN: "The action could not be judged, so it does not run.",
    Verdict.DENY: "The action must not run.",
}

OUTPUT_MEANING: Mapping[DecisionOutput, str] = {
    DecisionOutput.ALLOW_EXECUTE: "Run the action as asked.",
    DecisionOutput.ALLOW_CONSTRAINED: "Run the action within the limits that come with the answer.",
    DecisionOutput.NEED_CONTEXT: "Supply what the answer names as missing, then ask again.",
    DecisionOutput.REFUSE_WITH_PATH: "Do not run it; the answer says what can be done instead.",
}

# Families are open: an organisation's code has the family of its parent, or its own.
FAMILY_MEANING: Mapping[str, str] = {
    "guard": "Something in a text, a call or a program that a guard saw.",
    "content": "A kind of harmful content, whether a guard or a provider named it.",
    "workflow": "Something that must be supplied, agreed or narrowed before the action can go on.",
    "decision": "What a policy or the memory of past outcomes concluded.",
    "provider": "A model or its provider declined, for reasons that are its own.",
    "runtime": "Nothing was judged, because a part that judges failed.",
}


class Vocabulary(NamedTuple):
    """A closed vocabulary: its name, the question it answers, and what each word means."""

    title: str
    words: type[StrEnum]
    question: str
    meaning: Mapping[Any, str]


VOCABULARIES = (
    Vocabulary("Refusal class", RefusalClass, "May the refusal be lifted?", CLASS_MEANING),
    Vocabulary("Advice", Advice, "What should the caller do next?", ADVICE_MEANING),
    Vocabulary("Retry scope", RetryScope, "How far does the refusal reach?", RETRY_SCOPE_MEANING),
    Vocabulary("Severity", Severity, "How much attention does it deserve?", SEVERITY_MEANING),
    Vocabulary("Effect", Effect, "Does the code speak against the action?", EFFECT_MEANING),
    Vocabulary("Surface", Surface, "Where was the reason seen?", SURFACE_MEANING),
    Vocabulary("Grant kind", GrantKind, "What can an authority supply?", GRANT_MEANING),
    Vocabulary("Obligation", Obligation, "What must happen in any case?", OBLIGATION_MEANING),
    Vocabulary("Stability", Stability, "How firmly is the code promised?", STABILITY_MEANING),
    Vocabulary("Verdict", Verdict, "What did the engine conclude?", VERDICT_MEANING),
    Vocabulary("Decision output", DecisionOutput, "What must the caller do?", OUTPUT_MEANING),
)

_UNDECIDED = "Nothing was judged, so nothing may run."
_NO_GRANT = "No grant lifts it; only an attempt that can be judged does."
_ALLOWED = "There is nothing to do: the code is kept on record as the reason why the action ran."


def entry_headline(entry: Entry) -> str:
    """Return the entry as one sentence, such as `Refused: remote code execution.`."""
    title = entry.title if entry.title[:2].isupper() else _lower_first(entry.title)
    return f"{'Refused' if entry.effect is Effect.REFUSE else 'Allowed'}: {title}."


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def describe_class(entry: Entry) -> str:
    """Return whether the refusal can be lifted, in one sentence."""
    if not entry.decided:
        return _UNDECIDED
    return (
        CLASS_MEANING[entry.refusal_class] if entry.refusal_class else EFFECT_MEANING[entry.effect]
    )


def describe_next_step(entry: Entry) -> tuple[str, ...]:
    """Return what to do about a refusal with this code, sentence by sentence."""
    if entry.advice is None or entry.retry_scope is None:
        return (_ALLOWED,)
    sentences = [ADVICE_MEANING[entry.advice]]
    if not entry.decided:
        sentences.append(_NO_GRANT)
    elif entry.grants:
        kinds = " or ".join(f"`{kind}`" for kind in entry.grants)
        sentences.append(f"A grant of kind {kinds} lifts the block.")
    sentences.append(RETRY_SCOPE_MEANING[entry.retry_scope])
    sentences += (
        f"Lifted or not, {_lower_first(OBLIGATION_MEANING[duty])}" for duty in entry.obligations
    )
    return tuple(sentences)


def describe_replacement(entry: Entry) -> str | None:
    """Return what to use instead of a deprecated code, or None if the entry is not one."""
    if not entry.deprecated:
        return None
    return f"Use {entry.replacement} instead." if entry.replacement else "No code replaces it."


def describe_deprecation(entry: Entry) -> str | None:
    """Return since when a code is deprecated and what to use instead, or None if it is not."""
    advice = describe_replacement(entry)
    return f"Deprecated since {entry.deprecated_since}. {advice}" if advice else None
