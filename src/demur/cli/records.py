"""`demur show` and `demur explain`: find decision records, print them, and explain them."""

import json
import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

import msgspec

from demur.audit.report import (
    DecisionReport,
    RuleSummary,
    describe_invalid,
    describe_rules,
    find_cause,
    format_amount,
    render_ticket,
    report_decision,
    summarize_grants,
)
from demur.cli.main import Arguments, UsageError
from demur.cli.options import match_code, parse_time, require_code
from demur.cli.refusals import describe_decision, describe_words, exit_status, outcome_lines
from demur.cli.terminal import Paint, format_table, wrap_text
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    load_settings,
    open_existing_store,
)
from demur.codes.loading import default_registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.clock import format_timestamp, system_clock
from demur.gate.config import Config
from demur.model.decision import Outcome
from demur.model.record import DecisionRecord
from demur.model.request import DEFAULT_TENANT
from demur.store.backend import RecordFilter
from demur.store.store import Store

NEWEST = "last"
ID_HELP = "a decision's id, or its beginning; `last` is the newest, `request:ID` goes by request id"
_BY_REQUEST = "request:"


def find_record(store: Store, name: str, tenant: str | None = None) -> DecisionRecord:
    """Return the decision that `name` refers to: an id or its prefix, `last`, or `request:ID`.

    Raises:
        InputError: No decision matches, or several do.
    """
    if name == NEWEST:
        newest = store.find_records(RecordFilter(tenant=tenant), newest_first=True, limit=1)
        record = next(newest, None)
        problem = "there is no decision yet"
    elif name.startswith(_BY_REQUEST):
        request_id, owner = name.removeprefix(_BY_REQUEST), tenant or DEFAULT_TENANT
        record = store.by_request(owner, request_id)
        problem = f"there is no decision on a request `{request_id}` of tenant `{owner}`"
    else:
        found = store.resolve_id(name.upper()) if name else None
        record = None if found is None else store.get(found, tenant)
        problem = f"there is no decision `{name}`" + (f" of tenant `{tenant}`" if tenant else "")
    if record is None:
        raise InputError(problem, help="`demur show` lists the newest ones")
    return record


def record_status(record: DecisionRecord) -> int:
    """Return the exit status of a decision: 0 in advisory mode, which does not bind."""
    return exit_status(record.decision) if record.enforced else 0


def describe_record(record: DecisionRecord, paint: Paint, id_text: str) -> str:
    """Return a decision as a few lines; `id_text` is its id and where it is stored."""
    lines = [describe_decision(record, paint)]
    lines += label_lines([*_describe_details(record), ("id", id_text)], paint)
    return "\n".join(lines)


def label_lines(pairs: Iterable[tuple[str, str]], paint: Paint) -> Iterator[str]:
    """Yield each label and text as one wrapped, indented line."""
    for label, text in pairs:
        body = wrap_text(one_line(text), " " * 7).lstrip()
        yield f"  {paint(label.ljust(4), 'dim')} {body}"


def _describe_details(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    if record.reason_codes:
        yield "code", ", ".join(record.reason_codes)
    cause = find_cause(record)
    # The lines on lifted codes say what made such a decision an ALLOW.
    lifted_allow = record.resolved_codes and record.verdict is Verdict.ALLOW
    if not cause.is_rule and not lifted_allow:
        yield "by", str(cause).removeprefix("by ")
    if record.matched_rules:
        yield "rule", describe_rules(record)
    if record.shadow_rules:
        yield "rule", f"{', '.join(record.shadow_rules)} (shadow: does not count)"
    for words in describe_invalid(record):
        # What to do now says it already.
        if words not in (record.what_can_be_done_now or ""):
            yield "bad", words
    yield from _describe_resolution(record)


def _describe_resolution(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    """Yield what grants and accepted constraints lifted, and which grants were void."""
    lifted = [code for code in record.resolved_codes if code not in record.reason_codes]
    if lifted:
        yield "lift", f"{', '.join(lifted)}{_describe_lifters(record)}"
    bound = [code for code in record.resolved_codes if code in record.reason_codes]
    if bound:
        yield "keep", f"{'; '.join(record.accepted)} ({', '.join(bound)})"
    for grant in record.ignored_grants:
        # A grant that was ignored at first may have been applied later.
        if grant.grant_id not in record.lifted_by:
            yield "void", f"grant {grant.grant_id}: {grant.why.replace('_', ' ')}"


def _describe_lifters(record: DecisionRecord) -> str:
    """Return who lifted the codes, if the grants were not erased."""
    grants = () if record.personal is None else record.personal.grants
    holders = {grant.grant_id: grant.granted_by for grant in grants}
    named = (f"{holders.get(one, 'grant')} ({one})" for one in record.lifted_by)
    return f" by {', '.join(named)}" if record.lifted_by else ""


def record_to_json(record: DecisionRecord) -> str:
    """Return the whole record as JSON for people and tools."""
    return json.dumps(_record_to_object(record), indent=2)


def record_to_json_line(record: DecisionRecord) -> str:
    """Return the whole record as JSON on one line."""
    return json.dumps(_record_to_object(record), separators=(",", ":"))


def _record_to_object(record: DecisionRecord) -> dict[str, Any]:
    return {"outcome": record.outcome, **{key: record[key] for key in record}}


_DEFAULT_SHOWN = 20
FILTER_OPTIONS = (
    "outcome",
    "verdict",
    "code",
    "action",
    "subject",
    "search",
    "min_amount",
    "max_amount",
    "currency",
    "since",
    "until",
)


def add_filter_options(add: Arguments) -> None:
    """Add the options that choose among decisions, which `build_filter` reads."""
    add("--outcome", "only this outcome", choices=[str(word) for word in Outcome])
    add("--verdict", "only this verdict", choices=[str(word) for word in Verdict])
    add("--code CODE", "only decisions with this reason code")
    add("--action TYPE", "only decisions on this type of action")
    add("--subject WHO", "only decisions for this subject")
    add("--search WORDS", "only decisions with words that begin like these, in any case")
    add("--min-amount N", "only amounts from this one on", type=float)
    add("--max-amount N", "only amounts up to this one", type=float)
    add("--currency CUR", "only amounts in this currency, like USD")
    add_period_options(add)


def add_period_options(add: Arguments) -> None:
    """Add `--since WHEN` and `--until WHEN`, which `build_filter` reads."""
    when = "a day, a time, `today`, `yesterday`, or how long ago: 2h, 7d"
    add("--since WHEN", f"only from this time on: {when}")
    add("--until WHEN", "only before this time")


def build_filter(args: Namespace) -> RecordFilter:
    """Return the filter that the options describe.

    Raises:
        UsageError: A time or an amount cannot be used, or nothing lies between two of them.
    """
    now = system_clock()
    since, until = (
        None if text is None else format_timestamp(parse_time(text, now))
        for text in (args.since, args.until)
    )
    amounts = {name: getattr(args, name, None) for name in ("min_amount", "max_amount")}
    for name, amount in amounts.items():
        if amount is not None and not math.isfinite(amount):
            raise UsageError(f"`{amount}` is not an amount", where=f"--{name.replace('_', '-')}")
    lowest, highest = amounts.values()
    if lowest is not None and highest is not None and lowest > highest:
        raise UsageError("--min-amount is above --max-amount", help="swap them")
    if since is not None and until is not None and since >= until:
        raise UsageError("--since is not before --until", help="swap them")
    currency = getattr(args, "currency", None)
    return RecordFilter(
        **amounts,
        currency=None if currency is None else currency.upper(),
        tenant=args.tenant,
        outcome=getattr(args, "outcome", None),
        verdict=getattr(args, "verdict", None),
        reason_code=getattr(args, "code", None),
        action_type=args.action,
        since=since,
        until=until,
        subject=getattr(args, "subject", None),
        text=getattr(args, "search", None),
    )


def require_known_code(args: Namespace, config: Config, store: Store) -> None:
    """Complete `--code`, in any case; a code that only old records name is known as well.

    Raises:
        UsageError: Neither a registry nor a record has the code.
    """
    if args.code is None:
        return
    registry = default_registry(*config.registries)
    code = match_code(args.code, registry)
    if code is None and any(store.find_records(RecordFilter(reason_code=args.code), limit=1)):
        return
    args.code = code or require_code(args.code, registry)


def find_filter_options(args: Namespace) -> list[str]:
    """Return the options among `args` that choose decisions."""
    names = [name for name in FILTER_OPTIONS if getattr(args, name) is not None]
    return [f"--{name.replace('_', '-')}" for name in names]


def configure_show(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id [ID]", ID_HELP)
    add(
        "--last N",
        f"the newest N decisions; default: {_DEFAULT_SHOWN}",
        nargs="?",
        type=int,
        const=_DEFAULT_SHOWN,
    )
    add_filter_options(add)
    add_tenant_option(add)
    form = add.either()
    form("--json", "the whole record as JSON; many records: one per line")
    form("--web", "open it in the dashboard, which is started if it does not run")
    add_config_option(add)


def run_show(args: Namespace) -> int:
    """Print one decision, or the list."""
    filters = find_filter_options(args) + ["--last"] * (args.last is not None)
    if args.id is not None and filters:
        raise UsageError(f"{filters[0]} filters decisions: leave out the ID")
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last must be above 0, not `{args.last}`")
    config = load_settings(args)
    with open_existing_store(config) as store:
        require_known_code(args, config, store)
        if args.id is not None or args.web:
            record = find_record(store, NEWEST if args.id is None else args.id, args.tenant)
        if args.web:
            page = f"/decisions/{record.decision_id}"
        elif args.id is not None:
            print(record_to_json(record) if args.json else _describe_in_full(record, Paint()))
        else:
            _print_list(store, args)
    if args.web:
        # The service is loaded only when it is needed, so that `show` starts fast.
        import_module("demur.cli.service").open_page(args, page)
    return 0


def _describe_in_full(record: DecisionRecord, paint: Paint) -> str:
    place = "" if record.chain is None else f", number {record.chain.seq} of its chain"
    known_by = f"{record.decision_id} (tenant {record.tenant}{place})"
    return "\n".join(
        [describe_record(record, paint, known_by), *label_lines(describe_request(record), paint)]
    )


def describe_request(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    """Yield the action, subject, time and policy of a decision."""
    personal = record.personal
    who = "erased" if personal is None else personal.requester or "nobody named"
    amount = format_amount(record)
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "who", f"{who}, request {record.request_id}" if record.request_id else who
    yield "when", record.created_at
    policy = record.policy
    yield "by", f"{policy.policy_id} {policy.policy_version} ({policy.mode})"
    if record.continues is not None:
        resolved = record.basis == "resolution"
        origin = "resolved" if resolved else f"attempt {record.attempt}"
        yield "from", f"{record.continues} ({origin})"


def _print_list(store: Store, args: Namespace) -> None:
    limit = args.last or _DEFAULT_SHOWN
    # Fetch one more than shown, to know whether there are more.
    records = list(store.find_records(build_filter(args), newest_first=True, limit=limit + 1))
    shown = records[:limit]
    if args.json:
        sys.stdout.writelines(f"{record_to_json_line(record)}\n" for record in shown)
        return
    print("\n".join(_list_records(shown, Paint(), more=len(records) > limit)))


def _list_records(records: Sequence[DecisionRecord], paint: Paint, *, more: bool) -> Iterator[str]:
    if not records:
        yield paint("no decisions", "dim")
        return
    rows = (
        (
            record.decision_id,
            f"{record.created_at[:10]} {record.created_at[11:19]}",
            record.tenant,
            record.outcome.label if record.enforced else f"{record.outcome.label} (advisory)",
            one_line(f"{record.action_type} {format_amount(record)}".rstrip()),
            ", ".join(record.reason_codes),
        )
        for record in records
    )
    yield format_table(
        rows, ("DECISION", "TIME (UTC)", "TENANT", "OUTCOME", "ACTION", "CODES"), paint
    )
    count = f"{len(records)} decision{'s' * (len(records) != 1)}"
    yield paint(f"the newest {count}; --last shows more" if more else count, "dim")


_MAX_FACT_LENGTH = 200


def configure_explain(add: Arguments) -> None:
    """Add the command's arguments."""
    add("id ID", ID_HELP)
    form = add.either()
    form(
        "--markdown",
        "a short summary for a ticket: codes, rules and next steps, without subject, "
        "facts, evidence or notes",
    )
    form("--json", "one JSON object")
    add_tenant_option(add)
    add_config_option(add)


def run_explain(args: Namespace) -> int:
    """Print the explanation."""
    with open_existing_store(load_settings(args)) as store:
        report = report_decision(store, find_record(store, args.id, args.tenant))
    if args.markdown:
        print(render_ticket(report))
    elif args.json:
        print(json.dumps(_report_to_json(report), indent=2))
    else:
        print("\n".join(_explain_report(report, Paint())))
    return 0


def _report_to_json(report: DecisionReport) -> dict[str, Any]:
    record = report.record
    return {
        "decision_id": record.decision_id,
        "outcome": record.outcome,
        "verdict": record.verdict,
        "decision_output": record.decision_output,
        "refusal_class": record.refusal_class,
        "explanation": msgspec.to_builtins(record.explanation),
        "reason_codes": {code: report.codes.get(code) for code in record.reason_codes},
        "resolved_codes": {code: report.codes.get(code) for code in record.resolved_codes},
        "rules": [rule._asdict() for rule in report.rules],
        "facts": record["facts"],
        "findings": record["findings"],
        "similar": [similar._asdict() for similar in report.similar],
        "grants": [grant._asdict() for grant in summarize_grants(record)],
        "what_can_be_done_now": record.what_can_be_done_now,
        "how_to_proceed": record.how_to_proceed,
        "next_step": record.next_step,
        "history": [
            {"decision_id": one.decision_id, "basis": one.basis, "verdict": one.verdict}
            for one in report.family
        ],
        "labels": [label._asdict() for label in report.labels],
        "changed": report.changed,
    }


def _explain_report(report: DecisionReport, paint: Paint) -> Iterator[str]:
    record = report.record
    yield f"{paint('decision', 'dim')} {record.decision_id}"
    yield from outcome_lines(record, paint)
    yield from label_lines([*describe_request(record), ("data", describe_words(record))], paint)
    sections = (
        ("Changed since it was stored: run `demur audit verify`", report.changed),
        ("Why", _explain_reasons(report)),
        ("Rules that matched", map(_describe_rule, report.rules)),
        ("Facts that were compared", _list_facts(record)),
        ("What was said", _list_said(record)),
        ("What guards saw", _list_findings(record)),
        ("Similar experiences", _list_similar(report)),
        (
            "Other signals",
            (f"{name}: {_format_value(value)}" for name, value in report.signals.items()),
        ),
        ("Grants", _list_grants(record)),
        ("How to go on", _list_next_steps(record)),
        ("Removed before it was stored", _list_redactions(record)),
        ("History", _list_history(report)),
        ("Labels", _list_labels(report)),
    )
    for title, lines in sections:
        shown = [_format_item(line) for line in lines]
        if shown:
            yield ""
            yield paint(title, "bold")
            yield from shown


def _format_item(line: str) -> str:
    first, *rest = wrap_text(one_line(line), "    ").splitlines()
    return "\n".join([first[2:], *rest])


def _explain_reasons(report: DecisionReport) -> Iterator[str]:
    record = report.record
    for code in record.reason_codes:
        yield f"{code}: {report.codes.get(code, 'no longer known here')}"
    for code in record.resolved_codes:
        if code not in record.reason_codes:
            yield f"{code} was lifted: {report.codes.get(code, 'no longer known here')}"
    for code in record.shadowed_codes:
        yield f"{code} was seen by a guard, and the policy puts it in shadow"
    if not record.reason_codes:
        yield record.explanation.summary
    # The section on rules covers what the policy said; give the details only without it.
    if not report.rules or record.basis != "request":
        yield record.explanation.details
    else:
        for path in dict.fromkeys(fact.path for fact in record.invalid):
            facts = [fact for fact in record.invalid if fact.path == path]
            rules = ", ".join(fact.rule_id for fact in facts)
            yield f"{facts[0]}; {rules} could not be judged"
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


def _list_said(record: DecisionRecord) -> Iterator[str]:
    excerpt = None if record.personal is None else record.personal.excerpt
    if excerpt is not None:
        speaker = f"{excerpt.speaker} {excerpt.source}".rstrip()
        text = one_line(" ".join(excerpt.text.split()))
        yield f"{one_line(speaker)}: {text}{' (cut)' if excerpt.is_cut else ''}"
        if excerpt.prompt:
            yield f"to: {one_line(' '.join(excerpt.prompt.split()))}"


def _list_findings(record: DecisionRecord) -> Iterator[str]:
    for finding in () if record.personal is None else record.personal.findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.code} on {finding.surface}{_truncate_text(detail)}"


def _list_similar(report: DecisionReport) -> Iterator[str]:
    for neighbour in report.similar:
        likeness = f"{neighbour.outcome} {neighbour.score:.2f}"
        yield f"{likeness}: {neighbour.summary} (memory {neighbour.memory_id})"


def _list_grants(record: DecisionRecord) -> Iterator[str]:
    for grant in summarize_grants(record):
        filters = f"{grant.grant_id}, {grant.kind} by {grant.granted_by}"
        if grant.why is None:
            yield f"{filters}: counts"
        else:
            yield f"{filters}: ignored, {grant.why.replace('_', ' ')}"


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


def _list_history(report: DecisionReport) -> Iterator[str]:
    if len(report.family) < 2:
        return
    for one in report.family:
        what = "resolution" if one.basis == "resolution" else f"attempt {one.attempt}"
        codes = f" {', '.join(one.reason_codes)}" if one.reason_codes else ""
        this = " (this one)" if one.decision_id == report.record.decision_id else ""
        yield f"{one.created_at} {what} {one.decision_id}: {one.outcome.label}{codes}{this}"


def _list_labels(report: DecisionReport) -> Iterator[str]:
    for label in report.labels:
        by = f" by {label.by}" if label.by else ""
        note = f": {label.note}" if label.note else ""
        yield f"{label.created_at} {label.kind} {label.value}{by}{note}"
