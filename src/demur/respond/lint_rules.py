"""The rules of the linter: what each remark says, what helps, and how much it weighs."""

from typing import NamedTuple

from demur.respond.lint_report import RefusalPart, RefusalVerdict

__all__ = ["MISSING_PART_TEXTS", "LINT_RULES", "LintRule"]


class LintRule(NamedTuple):
    """One rule: its message, its hint, and the verdict it leads to."""

    message: str
    help: str
    verdict: RefusalVerdict
    # The points it takes off a score of 100.
    weight: int


LINT_RULES = {
    "bypass-hint": LintRule(
        "tells the reader how to get around a boundary that nothing lifts",
        "take it out, and offer only what is safe in any wording",
        RefusalVerdict.UNSAFE,
        40,
    ),
    "no-crisis-resources": LintRule(
        "leaves a person in danger without anyone to call",
        "give a help line or the emergency number first, and keep the rest short",
        RefusalVerdict.UNSAFE,
        40,
    ),
    "moralising": LintRule(
        "lectures the reader",
        "cut it; the boundary already says no, and one plain reason is enough",
        RefusalVerdict.PREACHY,
        20,
    ),
    "assumed-intent": LintRule(
        "takes the worst about the reader for granted",
        "speak about the act you leave undone, not about the person who asked",
        RefusalVerdict.PREACHY,
        20,
    ),
    "robotic-tone": LintRule(
        "sounds like a machine, not like someone who read the request",
        'say it in the first person and plain words, "I can\'t ..., because ..."',
        RefusalVerdict.ROBOTIC,
        15,
    ),
    "leaked-policy": LintRule(
        "shows the reader the rule book instead of a reason",
        "give the reason in plain words; ids, scores and instructions belong in the record",
        RefusalVerdict.ROBOTIC,
        15,
    ),
    "dead-end": LintRule(
        "ends the conversation: nothing is offered and nothing is asked",
        "name one or two things you can do instead, and close with a question",
        RefusalVerdict.INCOMPLETE,
        25,
    ),
    "missing-part": LintRule("", "", RefusalVerdict.INCOMPLETE, 10),
    "unnamed-requirement": LintRule(
        "does not name what is missing",
        "list exactly what has to be supplied, one line each",
        RefusalVerdict.INCOMPLETE,
        20,
    ),
    "unstated-constraints": LintRule(
        "does not state the limits under which it would be possible",
        "say plainly within which limits you could do it",
        RefusalVerdict.INCOMPLETE,
        20,
    ),
    "vague-boundary": LintRule(
        "does not say what is refused",
        "name the act, as in \"I can't help with reading another person's messages\"",
        RefusalVerdict.AWKWARD,
        10,
    ),
    "long-reason": LintRule(
        "explains for longer than one sentence",
        "keep the one sentence that matters most to this reader",
        RefusalVerdict.AWKWARD,
        10,
    ),
    "generic-alternatives": LintRule(
        "offers nothing in particular",
        "name one or two things you can do for this very request",
        RefusalVerdict.AWKWARD,
        10,
    ),
    "over-apology": LintRule(
        "apologises more than the matter deserves",
        "one short apology at most; a clear way on is worth more",
        RefusalVerdict.AWKWARD,
        5,
    ),
}

# Message and hint for each part that can be missing.
MISSING_PART_TEXTS = {
    RefusalPart.ACKNOWLEDGMENT: (
        "does not show that the request was understood",
        "begin with what the reader is after, in neutral words",
    ),
    RefusalPart.BOUNDARY: (
        "never says what will not be done",
        'say it once and directly, "I can\'t ..."',
    ),
    RefusalPart.REASON: (
        "gives no reason",
        'add half a sentence, "..., because ..."',
    ),
    RefusalPart.ALTERNATIVES: (
        "offers no other way",
        "name one or two things you can do for this very request",
    ),
    RefusalPart.ENGAGEMENT: (
        "does not invite an answer",
        "close with a short question about what the reader needs",
    ),
}
