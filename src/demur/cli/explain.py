"""`demur explain`: explain a decision: its reasons, facts, rules and next steps."""

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from demur.audit.story import RuleSummary, DecisionReport, report_decision, summarize_grants
from demur.audit.ticket import render_ticket
from demur.cli.classify import describe_decision
from demur.cli.records import ID_HELP, find_record, label_lines
from demur.cli.show import describe_request
from demur.cli.terminal import Paint, wrap_text
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_store,
    load_settings,
)
from demur.errors import one_line
from demur.model.record import DecisionRecord

__all__ = ["configure_explain", "run_explain"]

_MAX_FACT_LENGTH = 200


def configure_explain(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown",
        action="store_true",
        help="a short summary for a ticket: codes, rules and next steps, without subject, "
        "facts, evidence or notes",
    )
    form.add_argument("--json", action="store_true", help="one JSON object")
    add_tenant_option(parser)
    add_config_option(parser)


def run_explain(args: argparse.Namespace) -> int:
    """Print the explanation."""
    with open_existing_store(load_settings(args)) as store:
        story = report_decision(store, find_record(store, args.id, args.tenant))
    if args.markdown:
        print(render_ticket(story))
    elif args.json:
        print(json.dumps(_report_to_json(story), indent=2))
    else:
        print("\n".join(_explain_report(story, Paint())))
    return 0


def _report_to_json(story: DecisionReport) -> dict[str, Any]:
    record = story.record
    return {
        "decision_id": record.decision_id,
        "verdict": record.verdict,
        "decision_output": record.decision_output,
        "refusal_class": record.refusal_class,
        "explanation": msgspec.to_builtins(record.explanation),
        "reason_codes": {code: story.codes.get(code) for code in record.reason_codes},
        "resolved_codes": {code: story.codes.get(code) for code in record.resolved_codes},
        "rules": [rule._asdict() for rule in story.rules],
        "facts": record["facts"],
        "findings": record["findings"],
        "similar": [similar._asdict() for similar in story.similar],
        "grants": [grant._asdict() for grant in summarize_grants(record)],
        "what_can_be_done_now": record.what_can_be_done_now,
        "how_to_proceed": record.how_to_proceed,
        "next_step": record.next_step,
        "history": [
            {"decision_id": one.decision_id, "basis": one.basis, "verdict": one.verdict}
            for one in story.family
        ],
        "labels": [label._asdict() for label in story.labels],
    }


def _explain_report(story: DecisionReport, paint: Paint) -> Iterator[str]:
    record = story.record
    yield f"{paint('decision', 'dim')} {record.decision_id}"
    yield describe_decision(record.decision, paint).partition("\n")[0]
    yield from label_lines(describe_request(record), paint)
    sections = (
        ("Why", _explain_reasons(story)),
        ("Rules that matched", map(_describe_rule, story.rules)),
        ("Facts that were compared", _list_facts(record)),
        ("What guards saw", _list_findings(record)),
        ("Similar experiences", _list_similar(story)),
        (
            "Other signals",
            (f"{name}: {_format_value(value)}" for name, value in story.signals.items()),
        ),
        ("Grants", _list_grants(record)),
        ("How to go on", _list_next_steps(record)),
        ("Removed before it was stored", _list_redactions(record)),
        ("History", _list_history(story)),
        ("Labels", _list_labels(story)),
    )
    for title, lines in sections:
        yield from _format_section(title, lines, paint)


def _format_section(title: str, lines: Iterable[str], paint: Paint) -> Iterator[str]:
    shown = [_format_item(line) for line in lines]
    if shown:
        yield ""
        yield paint(title, "bold")
        yield from shown


def _format_item(line: str) -> str:
    first, *rest = wrap_text(one_line(line), "    ").splitlines()
    return "\n".join([first[2:], *rest])


def _explain_reasons(story: DecisionReport) -> Iterator[str]:
    record = story.record
    for code in record.reason_codes:
        yield f"{code}: {story.codes.get(code, 'no longer known here')}"
    for code in record.resolved_codes:
        if code not in record.reason_codes:
            yield f"{code} was lifted: {story.codes.get(code, 'no longer known here')}"
    for code in record.shadowed_codes:
        yield f"{code} was seen by a guard, and the policy puts it in shadow"
    if not record.reason_codes:
        yield record.explanation.summary
    # The section on rules covers what the policy said; give the details only without it.
    if not story.rules or record.basis != "request":
        yield record.explanation.details
    for fact in record.invalid:
        yield f"{fact.path} cannot be used, and rule {fact.rule_id} compares it"
    if not record.enforced:
        yield "Advisory mode: this was recorded and did not bind; the action could run."


def _describe_rule(rule: RuleSummary) -> str:
    shadow = " in shadow, so it does not count" if rule.shadow else ""
    if rule.verdict is None:
        return (
            f"{rule.rule_id} ({rule.stage or 'stage unknown'}){shadow}; its policy is not at hand"
        )
    return f"{rule.rule_id} ({rule.stage}) says {rule.verdict}{shadow}: {rule.words}"


def _list_facts(record: DecisionRecord) -> Iterator[str]:
    if record.personal is None:
        yield "erased, together with everything else that came in"
        return
    for path, value in record.personal.facts.items():
        yield f"{path} = {_format_value(value)}"


def _format_value(value: Any) -> str:
    return _truncate_text(json.dumps(value, ensure_ascii=False))


def _truncate_text(text: str) -> str:
    return text if len(text) <= _MAX_FACT_LENGTH else f"{text[:_MAX_FACT_LENGTH]}… (cut)"


def _list_findings(record: DecisionRecord) -> Iterator[str]:
    for finding in () if record.personal is None else record.personal.findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.code} on {finding.surface}{_truncate_text(detail)}"


def _list_similar(story: DecisionReport) -> Iterator[str]:
    for near in story.similar:
        yield f"{near.outcome} {near.score:.2f}: {near.summary} (memory {near.memory_id})"


def _list_grants(record: DecisionRecord) -> Iterator[str]:
    for grant in summarize_grants(record):
        given = f"{grant.grant_id}, {grant.kind} by {grant.granted_by}"
        if grant.why is None:
            yield f"{given}: counts"
        else:
            yield f"{given}: ignored, {grant.why.replace('_', ' ')}"


def _list_next_steps(record: DecisionRecord) -> Iterator[str]:
    if record.what_can_be_done_now is not None:
        yield record.what_can_be_done_now
    if record.how_to_proceed is not None:
        yield record.how_to_proceed
    if record.next_step is not None:
        yield f"For a machine: {record.next_step}."
    if record.obligations:
        yield f"In any case: {', '.join(record.obligations)}."


def _list_redactions(record: DecisionRecord) -> Iterator[str]:
    if record.redaction is not None and record.redaction.removed:
        yield f"{', '.join(record.redaction.removed)} (profile {record.redaction.profile})"


def _list_history(story: DecisionReport) -> Iterator[str]:
    if len(story.family) < 2:
        return
    for one in story.family:
        what = "resolution" if one.basis == "resolution" else f"attempt {one.attempt}"
        codes = f" {', '.join(one.reason_codes)}" if one.reason_codes else ""
        this = " (this one)" if one.decision_id == story.record.decision_id else ""
        yield f"{one.created_at} {what} {one.decision_id}: {one.verdict}{codes}{this}"


def _list_labels(story: DecisionReport) -> Iterator[str]:
    for label in story.labels:
        by = f" by {label.by}" if label.by else ""
        note = f": {label.note}" if label.note else ""
        yield f"{label.created_at} {label.kind} {label.value}{by}{note}"
