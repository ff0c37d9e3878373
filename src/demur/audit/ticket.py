"""A decision as Markdown for a ticket: short, bounded, and without personal data.

Requester, facts, evidence, details of findings and notes on labels stay in the store, where
access is controlled; the decision id leads there.
"""

from collections.abc import Iterator

from demur.audit.story import Story, amount_text
from demur.codes.export.markup import code, prose
from demur.model.record import DecisionRecord

__all__ = ["LONGEST", "ticket"]

LONGEST = 4000
_MOST_ROWS = 10
_LONGEST_LINE = 300


def ticket(story: Story) -> str:
    """Return the summary; a text that is too long is cut, with a note."""
    text = "\n".join(_lines(story))
    note = f"\n\n… cut; `demur explain {story.record.decision_id}` tells all of it"
    return text if len(text) <= LONGEST else text[: LONGEST - len(note)] + note


def _lines(story: Story) -> Iterator[str]:
    record = story.record
    amount = amount_text(record)
    asked = code(f"{record.action_type}{f', {amount}' if amount else ''}"[:_LONGEST_LINE])
    yield f"### {record.decision_output}: {asked}"
    yield ""
    yield _short(record.explanation.summary)
    yield ""
    yield f"- **Verdict** {record.verdict}, {record.refusal_class or 'nothing refuses'}"
    yield from _reasons(story)
    yield from _way_on(record)
    policy = record.policy
    judged = f"{policy.policy_id} {policy.policy_version}"
    yield f"- **Policy** {code(judged)} ({policy.mode})"
    if len(story.family) > 1:
        yield f"- **Attempt** {record.attempt} of {_attempts(story)} so far"
    outcomes = [label.value for label in story.labels if label.kind == "outcome"]
    if outcomes:
        yield f"- **Outcome** {', '.join(map(code, outcomes[:_MOST_ROWS]))}"
    yield f"- **Decision** {code(record.decision_id)}, tenant {code(record.tenant)}"
    yield f"- **Time** {record.created_at}"
    if not record.enforced:
        yield "- **Advisory**: recorded; it did not bind"


def _reasons(story: Story) -> Iterator[str]:
    record = story.record
    for reason in record.reason_codes[:_MOST_ROWS]:
        yield f"- **Reason** {code(reason)}: {_short(story.codes.get(reason, 'not known here'))}"
    lifted = [reason for reason in record.resolved_codes if reason not in record.reason_codes]
    if lifted:
        yield f"- **Lifted** {', '.join(map(code, lifted[:_MOST_ROWS]))}"
    for rule in [rule for rule in story.rules if not rule.shadow][:_MOST_ROWS]:
        words = f": {_short(rule.words)}" if rule.words else ""
        yield f"- **Rule** {code(rule.rule_id)} ({rule.stage}){words}"
    paths = list(dict.fromkeys(fact.path for fact in record.invalid))
    if paths:
        yield f"- **Cannot be used** {', '.join(map(code, paths[:_MOST_ROWS]))}"


def _way_on(record: DecisionRecord) -> Iterator[str]:
    for title, text in (
        ("Now", record.what_can_be_done_now),
        ("Then", record.how_to_proceed),
        ("Next step", record.next_step),
        ("Must", ", ".join(record.obligations)),
    ):
        if text:
            yield f"- **{title}** {_short(text)}"


def _attempts(story: Story) -> int:
    return max(one.attempt for one in story.family)


def _short(text: str) -> str:
    return prose(text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…")
