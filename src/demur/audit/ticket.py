"""A decision as Markdown for a ticket: short, bounded, and without personal data.

Requester, facts, evidence, details of findings and notes on labels stay in the store, where
access is controlled; the decision id leads there.
"""

from collections.abc import Iterator

from demur.audit.story import DecisionReport, format_amount
from demur.codes.export.markup import markdown_code, markdown_prose
from demur.model.record import DecisionRecord

__all__ = ["MAX_TICKET_LENGTH", "render_ticket"]

MAX_TICKET_LENGTH = 4000
_MAX_ROWS = 10
_MAX_LINE_LENGTH = 300


def render_ticket(report: DecisionReport) -> str:
    """Return the summary; a text that is too long is cut, with a note."""
    text = "\n".join(_ticket_lines(report))
    note = f"\n\n… cut; `demur explain {report.record.decision_id}` tells all of it"
    return text if len(text) <= MAX_TICKET_LENGTH else text[: MAX_TICKET_LENGTH - len(note)] + note


def _ticket_lines(report: DecisionReport) -> Iterator[str]:
    record = report.record
    amount = format_amount(record)
    asked = markdown_code(
        f"{record.action_type}{f', {amount}' if amount else ''}"[:_MAX_LINE_LENGTH]
    )
    yield f"### {record.decision_output}: {asked}"
    yield ""
    yield _clip_text(record.explanation.summary)
    yield ""
    yield f"- **Verdict** {record.verdict}, {record.refusal_class or 'nothing refuses'}"
    yield from _reason_lines(report)
    yield from _next_lines(record)
    policy = record.policy
    judged = f"{policy.policy_id} {policy.policy_version}"
    yield f"- **Policy** {markdown_code(judged)} ({policy.mode})"
    if len(report.family) > 1:
        yield f"- **Attempt** {record.attempt} of {_last_attempt(report)} so far"
    outcomes = [label.value for label in report.labels if label.kind == "outcome"]
    if outcomes:
        yield f"- **Outcome** {', '.join(map(markdown_code, outcomes[:_MAX_ROWS]))}"
    yield f"- **Decision** {markdown_code(record.decision_id)}, tenant {markdown_code(record.tenant)}"
    yield f"- **Time** {record.created_at}"
    if not record.enforced:
        yield "- **Advisory**: recorded; it did not bind"


def _reason_lines(report: DecisionReport) -> Iterator[str]:
    record = report.record
    for reason in record.reason_codes[:_MAX_ROWS]:
        yield f"- **Reason** {markdown_code(reason)}: {_clip_text(report.codes.get(reason, 'not known here'))}"
    lifted = [reason for reason in record.resolved_codes if reason not in record.reason_codes]
    if lifted:
        yield f"- **Lifted** {', '.join(map(markdown_code, lifted[:_MAX_ROWS]))}"
    for rule in [rule for rule in report.rules if not rule.shadow][:_MAX_ROWS]:
        words = f": {_clip_text(rule.words)}" if rule.words else ""
        yield f"- **Rule** {markdown_code(rule.rule_id)} ({rule.stage}){words}"
    paths = list(dict.fromkeys(fact.path for fact in record.invalid))
    if paths:
        yield f"- **Cannot be used** {', '.join(map(markdown_code, paths[:_MAX_ROWS]))}"


def _next_lines(record: DecisionRecord) -> Iterator[str]:
    for title, text in (
        ("Now", record.what_can_be_done_now),
        ("Then", record.how_to_proceed),
        ("Next step", record.next_step),
        ("Must", ", ".join(record.obligations)),
    ):
        if text:
            yield f"- **{title}** {_clip_text(text)}"


def _last_attempt(report: DecisionReport) -> int:
    return max(one.attempt for one in report.family)


def _clip_text(text: str) -> str:
    return markdown_prose(text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}…")
