"""`demur explain`: explain a decision: its reasons, facts, rules and next steps."""

import argparse
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from demur.audit.story import RuleTold, Story, gather_story, grants_told
from demur.audit.ticket import ticket
from demur.cli.classify import describe
from demur.cli.records import ID_HELP, find_record, labelled
from demur.cli.show import seen
from demur.cli.terminal import Paint, wrap
from demur.cli.workspace import add_config, add_tenant, existing_store, settings
from demur.errors import one_line
from demur.model.record import DecisionRecord

__all__ = ["configure", "run"]

_LONGEST_FACT = 200


def configure(parser: argparse.ArgumentParser) -> None:
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
    add_tenant(parser)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    with existing_store(settings(args)) as store:
        story = gather_story(store, find_record(store, args.id, args.tenant))
    if args.markdown:
        print(ticket(story))
    elif args.json:
        print(json.dumps(_as_json(story), indent=2))
    else:
        print("\n".join(_told(story, Paint())))
    return 0


def _as_json(story: Story) -> dict[str, Any]:
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
        "grants": [grant._asdict() for grant in grants_told(record)],
        "what_can_be_done_now": record.what_can_be_done_now,
        "how_to_proceed": record.how_to_proceed,
        "next_step": record.next_step,
        "history": [
            {"decision_id": one.decision_id, "basis": one.basis, "verdict": one.verdict}
            for one in story.family
        ],
        "labels": [label._asdict() for label in story.labels],
    }


def _told(story: Story, paint: Paint) -> Iterator[str]:
    record = story.record
    yield f"{paint('decision', 'dim')} {record.decision_id}"
    yield describe(record.decision, paint).partition("\n")[0]
    yield from labelled(seen(record), paint)
    sections = (
        ("Why", _why(story)),
        ("Rules that matched", map(_rule, story.rules)),
        ("Facts that were compared", _facts(record)),
        ("What guards saw", _findings(record)),
        ("Similar experiences", _similar(story)),
        ("Other signals", (f"{name}: {_value(value)}" for name, value in story.signals.items())),
        ("Grants", _grants(record)),
        ("How to go on", _way_on(record)),
        ("Removed before it was stored", _removed(record)),
        ("History", _history(story)),
        ("Labels", _labels(story)),
    )
    for title, lines in sections:
        yield from _section(title, lines, paint)


def _section(title: str, lines: Iterable[str], paint: Paint) -> Iterator[str]:
    shown = [_item(line) for line in lines]
    if shown:
        yield ""
        yield paint(title, "bold")
        yield from shown


def _item(line: str) -> str:
    first, *rest = wrap(one_line(line), "    ").splitlines()
    return "\n".join([first[2:], *rest])


def _why(story: Story) -> Iterator[str]:
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


def _rule(rule: RuleTold) -> str:
    shadow = " in shadow, so it does not count" if rule.shadow else ""
    if rule.verdict is None:
        return (
            f"{rule.rule_id} ({rule.stage or 'stage unknown'}){shadow}; its policy is not at hand"
        )
    return f"{rule.rule_id} ({rule.stage}) says {rule.verdict}{shadow}: {rule.words}"


def _facts(record: DecisionRecord) -> Iterator[str]:
    if record.personal is None:
        yield "erased, together with everything else that came in"
        return
    for path, value in record.personal.facts.items():
        yield f"{path} = {_value(value)}"


def _value(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_FACT else f"{text[:_LONGEST_FACT]}… (cut)"


def _findings(record: DecisionRecord) -> Iterator[str]:
    for finding in () if record.personal is None else record.personal.findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.code} on {finding.surface}{_cut(detail)}"


def _similar(story: Story) -> Iterator[str]:
    for near in story.similar:
        yield f"{near.outcome} {near.score:.2f}: {near.summary} (memory {near.memory_id})"


def _grants(record: DecisionRecord) -> Iterator[str]:
    for grant in grants_told(record):
        given = f"{grant.grant_id}, {grant.kind} by {grant.granted_by}"
        if grant.why is None:
            yield f"{given}: counts"
        else:
            yield f"{given}: ignored, {grant.why.replace('_', ' ')}"


def _way_on(record: DecisionRecord) -> Iterator[str]:
    if record.what_can_be_done_now is not None:
        yield record.what_can_be_done_now
    if record.how_to_proceed is not None:
        yield record.how_to_proceed
    if record.next_step is not None:
        yield f"For a machine: {record.next_step}."
    if record.obligations:
        yield f"In any case: {', '.join(record.obligations)}."


def _removed(record: DecisionRecord) -> Iterator[str]:
    if record.redaction is not None and record.redaction.removed:
        yield f"{', '.join(record.redaction.removed)} (profile {record.redaction.profile})"


def _history(story: Story) -> Iterator[str]:
    if len(story.family) < 2:
        return
    for one in story.family:
        what = "resolution" if one.basis == "resolution" else f"attempt {one.attempt}"
        codes = f" {', '.join(one.reason_codes)}" if one.reason_codes else ""
        this = " (this one)" if one.decision_id == story.record.decision_id else ""
        yield f"{one.created_at} {what} {one.decision_id}: {one.verdict}{codes}{this}"


def _labels(story: Story) -> Iterator[str]:
    for label in story.labels:
        by = f" by {label.by}" if label.by else ""
        note = f": {label.note}" if label.note else ""
        yield f"{label.created_at} {label.kind} {label.value}{by}{note}"
