"""`demur export`, `demur replay` and `demur diff`: take decisions out and make them again."""

import json
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from demur.audit.diff import (
    SEALED_FIELD,
    DecisionChange,
    PolicyComparison,
    Unreplayable,
    compare_policy,
)
from demur.audit.pack import (
    CONTAINER,
    MAX_PACK_BYTES,
    Pack,
    PackError,
    read_lines,
    read_pack,
    write_line,
    write_pack,
)
from demur.audit.parquet_folder import export_parquet
from demur.audit.replay import ReplayResult, check_heads, replay_pack
from demur.audit.report import describe_rules, export_pack, find_cause, format_amount
from demur.cli.main import Arguments, UsageError
from demur.cli.options import add_registry_option
from demur.cli.records import (
    ID_HELP,
    add_filter_options,
    add_period_options,
    build_filter,
    find_filter_options,
    find_record,
    label_lines,
    record_to_json,
    require_known_code,
)
from demur.cli.terminal import Paint, format_table
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    config_path,
    load_settings,
    open_existing_store,
)
from demur.codes.loading import default_registry
from demur.codes.markup import markdown_code, markdown_prose
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.errors import InputError, one_line
from demur.gate.config import load_config
from demur.grants.keys import KeyRing, load_trusted_keys, read_signing_key
from demur.model.record import DecisionRecord
from demur.policy.loader import load_policy
from demur.service.sample import SAMPLE_TENANT
from demur.store.backend import StorageError
from demur.store.rows import ChainHead
from demur.store.store import Store
from demur.store.verify import read_heads
from demur.version import ENGINE_VERSION

_OWNER_ONLY = 0o600


def configure_export(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(
        "a pack holds all inputs of one decision, for `demur replay` anywhere; JSON lines are for "
        "`demur diff`, for `demur replay` with the store, and for auditors. Both hold the "
        "inputs, which may be personal data"
    )
    add("id [ID]", ID_HELP)
    add("--all", "every decision, as JSON lines")
    add_filter_options(add)
    add_tenant_option(add)
    add("--pack", "the decision as a pack; needs --out")
    add("--sign KEYFILE", "sign the pack with this key", type=Path)
    add("--out FILE", "write to this file", type=Path)
    add(
        "--parquet DIR",
        "bring a folder of Parquet files up to date: new decisions of all tenants or of --tenant, "
        "without their inputs; erased and retired ones go",
        type=Path,
    )
    add(
        "--forget-unreachable",
        "forget Parquet files that are missing or changed, once you erased what they hold",
    )
    add_config_option(add)


def run_export(args: Namespace) -> int:
    """Write the chosen records."""
    if args.parquet is not None:
        return _export_parquet(args)
    _check_selection(args)
    config = load_settings(args)
    with open_existing_store(config) as store:
        require_known_code(args, config, store)
        if args.id is None:
            records = store.find_records(build_filter(args))
            count = _write_chunks(args.out, (write_line(record) + b"\n" for record in records))
            if args.out is not None:
                print(f"{args.out}: {count} decision{'s' * (count != 1)}")
            return 0
        record = find_record(store, args.id, args.tenant)
        if args.pack:
            key = None if args.sign is None else read_signing_key(args.sign)
            _write_chunks(args.out, [write_pack(export_pack(store, record), key)])
            print(f"{args.out}: decision {record.decision_id}")
        else:
            _write_chunks(args.out, [record_to_json(record).encode() + b"\n"])
    return 0


def _export_parquet(args: Namespace) -> int:
    given = {"an ID": args.id, "--pack": args.pack, "--sign": args.sign, "--out": args.out}
    others = [*find_filter_options(args), *(name for name, value in given.items() if value)]
    if others:
        help_text = "it takes all decisions, or those of --tenant; filter when you query"
        raise UsageError(f"--parquet cannot be combined with {others[0]}", help=help_text)
    with open_existing_store(load_settings(args)) as store:
        done = export_parquet(
            store,
            args.parquet,
            tenant=args.tenant,
            forget_unreachable=args.forget_unreachable,
        )
    print(f"{args.parquet}: added {_count(done.rows, 'decision')} in {_count(done.added, 'file')}")
    if done.rewritten or done.removed:
        counts = f"rewrote {_count(done.rewritten, 'file')}, removed {done.removed}"
        print(f"  {counts}: what was erased or retired is gone from them")
    for problem in done.unreachable:
        print(one_line(f"not erased: {problem}"), file=sys.stderr)
    if not done.unreachable:
        return 0
    files = _count(len(done.unreachable), "file")
    if args.forget_unreachable:
        print(f"  forgot {files}: demur neither erases in them nor names them again")
        return 0
    help_text = "put them back and run it again, or erase there and add --forget-unreachable"
    print(f"  help: {help_text}", file=sys.stderr)
    return 1


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _check_selection(args: Namespace) -> None:
    if args.forget_unreachable:
        raise UsageError("--forget-unreachable needs --parquet")
    chosen = [*find_filter_options(args), *["--all"] * args.all]
    if args.id is not None and chosen:
        raise UsageError(f"{chosen[0]} filters decisions: leave out the ID")
    if args.id is None and args.pack:
        help_text = "give its id: demur export ID --pack; for many, export lines without --pack"
        raise UsageError("a pack holds one decision", help=help_text)
    if args.id is None and not chosen and args.tenant is None:
        raise UsageError(
            "no decision is chosen", help="give an ID, or select with --all, --since, ..."
        )
    if args.pack and args.out is None:
        raise UsageError("--pack needs --out", help="like --out decision.zip")
    if args.sign is not None and not args.pack:
        raise UsageError("`--sign` needs `--pack`", help="add --pack")


def _write_chunks(path: Path | None, chunks: Iterable[bytes]) -> int:
    """Print the chunks, or write them to a file atomically; return their number."""
    count = 0
    if path is None:
        for count, chunk in enumerate(chunks, start=1):  # noqa: B007 - the last one is the number
            print(chunk.decode(), end="")
        return count
    part = path.with_name(f"{path.name}.part")
    try:
        # The inputs may be personal data, so only the owner may read the file.
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        with os.fdopen(descriptor, "wb") as file:
            for count, chunk in enumerate(chunks, start=1):  # noqa: B007 - see above
                file.write(chunk)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


DIFFERENT, UNREPLAYABLE = 1, 6


class _ReplayOutcome(NamedTuple):
    """The outcome of a replay, or the reason why there was none."""

    record: DecisionRecord | None
    result: str
    notes: tuple[str, ...] = ()
    replay: ReplayResult | None = None
    problem: str | None = None
    where: str | None = None


def configure_replay(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(
        "decisions of engine 0.1.0 are replayed as that engine decided, with a note on what this "
        "engine decides; those of other engines are compared as strictly, and both are named"
    )
    add(
        "pack FILE",
        "a file of `demur export`: a pack, or lines, whose policies are read from the store",
        type=Path,
    )
    add("--heads FILE", "verify the pack against heads of `demur audit heads`", type=Path)
    add(
        "--keys FILE ...",
        "require a signature by one of these trusted keys; repeatable",
        type=Path,
        default=None,
    )
    form = add.either()
    form("--markdown", "a summary for a ticket, without personal data")
    form("--json", "one JSON object; of lines: one per line")
    add_config_option(add)


def run_replay(args: Namespace) -> int:
    """Print the outcome of the replay; 0 if the decision is the same."""
    try:
        with args.pack.open("rb") as file:
            first_byte = file.read(1)
    except FileNotFoundError as error:
        help_text = "write one: `demur export last --pack --out decision.zip`"
        raise InputError("no such file", where=str(args.pack), help=help_text) from error
    if first_byte == b"{":
        return _replay_lines(args)
    outcome = _replay_pack(args)
    if outcome.replay is None and not args.json and outcome.result == "tampered":
        # Report tampering like any error: on standard error, with its place.
        raise PackError(outcome.problem or "", where=outcome.where)
    if args.json:
        print(json.dumps(_outcome_to_json(outcome), indent=2))
    else:
        print(
            "\n".join(
                _format_markdown(outcome) if args.markdown else _format_outcome(outcome, Paint())
            )
        )
    return _RESULT_STATUS.get(outcome.result, DIFFERENT)


_RESULT_STATUS = {"same": 0, "not_replayable": UNREPLAYABLE}
_RESULT_LABELS = {
    "same": "the same",
    "different": "different",
    "not_replayable": "not replayable",
    "tampered": "unusable",
}


def _replay_lines(args: Namespace) -> int:
    """Replay each line of an export with the policies in the store, and print what differs."""
    if args.keys is not None or args.markdown:
        option = "--markdown" if args.markdown else "--keys"
        raise UsageError(f"{option} is for a pack, and the file holds lines")
    heads = _read_heads_option(args)
    counts: Counter[str] = Counter()
    paint = Paint()
    with open_existing_store(load_settings(args)) as store, args.pack.open("rb") as lines:
        for record in read_lines(lines):
            outcome = _replay_line(store, record, heads)
            counts[outcome.result] += 1
            if args.json:
                print(json.dumps(_outcome_to_json(outcome)))
            elif outcome.record is None:
                print(one_line(f"{outcome.where}: {outcome.problem}"))
            elif outcome.result != "same":
                print("\n".join(_format_outcome(outcome, paint)))
    if not args.json:
        parts = ", ".join(f"{counts[name]} {_RESULT_LABELS[name]}" for name in sorted(counts))
        total = counts.total()
        print(paint(f"{total} decision{'s' * (total != 1)}: {parts}", "dim"))
    statuses = {_RESULT_STATUS.get(name, DIFFERENT) for name in counts}
    return DIFFERENT if DIFFERENT in statuses else max(statuses)


def _replay_line(
    store: Store, record: DecisionRecord | InputError, heads: Sequence[ChainHead] | None
) -> _ReplayOutcome:
    if isinstance(record, InputError):
        return _ReplayOutcome(None, "tampered", problem=record.problem, where=record.where)
    try:
        pack = export_pack(store, record)
    except InputError as error:
        return _ReplayOutcome(record, "not_replayable", (), None, error.problem, error.where)
    except StorageError as error:
        return _ReplayOutcome(record, "tampered", (), None, error.problem, error.where)
    return _replay_record(pack, heads)


def _replay_record(pack: Pack, heads: Sequence[ChainHead] | None) -> _ReplayOutcome:
    notes: tuple[str, ...] = ()
    try:
        notes = () if heads is None else check_heads(pack.record, heads)
        result = replay_pack(pack)
    except (PackError, Unreplayable) as error:
        word = "not_replayable" if isinstance(error, Unreplayable) else "tampered"
        return _ReplayOutcome(pack.record, word, notes, problem=error.problem, where=error.where)
    same = "same" if result.same else "different"
    return _ReplayOutcome(result.record, same, (*result.notes, *notes), result)


def _read_heads_option(args: Namespace) -> list[ChainHead] | None:
    if args.heads is None:
        return None
    try:
        return read_heads(json.loads(args.heads.read_bytes()))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("not JSON", where=str(args.heads)) from error


def _replay_pack(args: Namespace) -> _ReplayOutcome:
    keys, heads = None, _read_heads_option(args)
    if args.keys is not None:
        rings = [load_trusted_keys(str(path)) for path in args.keys]
        keys = KeyRing(key for ring in rings for key in ring.values())
    if args.pack.stat().st_size > MAX_PACK_BYTES:
        problem = f"a pack has at most {MAX_PACK_BYTES} bytes"
        return _ReplayOutcome(None, "tampered", problem=problem, where=CONTAINER)
    try:
        pack = read_pack(args.pack.read_bytes(), keys)
    except PackError as error:
        return _ReplayOutcome(None, "tampered", problem=error.problem, where=error.where)
    return _replay_record(pack, heads)


def _outcome_to_json(outcome: _ReplayOutcome) -> dict[str, Any]:
    record, result = outcome.record, outcome.replay
    answer: dict[str, Any] = {"result": outcome.result, "replayed_by": ENGINE_VERSION}
    if record is not None:
        answer |= {
            "decision_id": record.decision_id,
            "decided_by": record.determinism.engine_version,
            "outcome": record.outcome,
            "verdict": record.verdict,
            "decision_output": record.decision_output,
            "reason_codes": list(record.reason_codes),
            "matched_rules": record["matched_rules"],
        }
    if outcome.problem is not None:
        answer |= {"where": outcome.where, "problem": outcome.problem}
    found = () if result is None else result.differences
    return {**answer, "differences": [d._asdict() for d in found], "notes": list(outcome.notes)}


def _describe_result(outcome: _ReplayOutcome) -> str:
    if outcome.replay is None:
        return f"not replayable: {outcome.where}: {outcome.problem}"
    count = len(outcome.replay.differences)
    if not count:
        return "same decision"
    many = f"{count} fields differ" if count > 1 else "1 field differs"
    version = outcome.replay.record.determinism.engine_version
    if version == ENGINE_VERSION:
        return many
    return f"engine {version} decided, engine {ENGINE_VERSION} decides otherwise: {many}"


def _format_outcome(outcome: _ReplayOutcome, paint: Paint) -> Iterator[str]:
    assert outcome.record is not None
    yield from label_lines(_summarize_record(outcome.record), paint)
    colour = {"same": "green", "different": "red"}.get(outcome.result, "yellow")
    yield paint(one_line(_describe_result(outcome)), "bold", colour)
    for field, recorded, replayed in () if outcome.replay is None else outcome.replay.differences:
        yield f"  {one_line(field)}"
        yield f"    recorded {json.dumps(recorded)}"
        yield f"    replayed {json.dumps(replayed)}"
    for note in outcome.notes:
        yield f"{paint('note:', 'cyan')} {one_line(note)}"


def _summarize_record(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    amount = format_amount(record)
    yield "id", f"{record.decision_id}, tenant {record.tenant}, {record.created_at}"
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "says", record.outcome.label
    if record.reason_codes:
        yield "code", ", ".join(record.reason_codes)
    cause = find_cause(record)
    if not cause.is_rule:
        yield "by", str(cause)
    if record.matched_rules:
        yield "rule", describe_rules(record)


def _format_markdown(outcome: _ReplayOutcome) -> Iterator[str]:
    record = outcome.record
    assert record is not None
    title = one_line(_describe_result(outcome))
    yield f"### Replay of {markdown_code(record.decision_id)}: {title}"
    yield ""
    yield f"- **Outcome** {record.outcome.label}"
    yield f"- **Verdict** {record.verdict}, {record.decision_output}"
    if record.reason_codes:
        yield f"- **Codes** {', '.join(map(markdown_code, record.reason_codes))}"
    yield f"- **Decided** {markdown_prose(str(find_cause(record)))}"
    if record.matched_rules:
        yield f"- **Rules** {markdown_prose(describe_rules(record))}"
    policy = record.policy
    yield f"- **Policy** {markdown_code(f'{policy.policy_id} {policy.policy_version}')}"
    for field, recorded, replayed in () if outcome.replay is None else outcome.replay.differences:
        before, after = (markdown_code(json.dumps(value)) for value in (recorded, replayed))
        values = f": recorded {before}, replayed {after}"
        shown = " (personal, not shown)" if field.startswith(SEALED_FIELD) else values
        yield f"- **Differs** {markdown_code(field)}{shown}"
    for note in outcome.notes:
        yield f"- {one_line(note)}"


_DEFAULT_SHOWN = 20
_STORE_OPTIONS = ("since", "until", "tenant", "action", "config")


def configure_diff(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "records [RECORDS]",
        "lines of `demur export --all`; default: the decisions in the store",
        type=Path,
    )
    add("--policy FILE", "the candidate policy", required=True)
    add("--action TYPE", "only decisions on this type of action")
    add_period_options(add)
    add_tenant_option(add)
    add_registry_option(add)
    add("--allow-changes", "exit with 0 despite changes; errors still fail")
    add(
        "--limit N",
        f"the number of changed decisions to show (default: {_DEFAULT_SHOWN}); all are counted",
        type=int,
        default=_DEFAULT_SHOWN,
    )
    add("--json", "one JSON object")
    add_config_option(add)


def run_diff(args: Namespace) -> int:
    """Print the changes; 0 if there are none and all decisions were compared."""
    if args.limit < 0:
        raise UsageError(f"--limit must be 0 or more, not `{args.limit}`")
    found = _compare_store(args) if args.records is None else _compare_file(args)
    if args.json:
        print(json.dumps(_comparison_to_json(found), indent=2))
    else:
        print("\n".join(_format_comparison(found, Paint())))
    return int(not found.sound or (found.changed > 0 and not args.allow_changes))


def _compare_store(args: Namespace) -> PolicyComparison:
    config = load_config(config_path(args))
    registry = default_registry(*config.registries, *args.registry)
    with open_existing_store(config) as store:
        records = store.find_records(build_filter(args))
        if args.tenant is None and SAMPLE_TENANT in store.backend.list_tenants():
            text = f"made-up decisions are left out (--tenant {SAMPLE_TENANT} compares them)"
            print(f"note: {text}", file=sys.stderr)
            records = (record for record in records if record.tenant != SAMPLE_TENANT)
        return _compare_records(args, registry, records)


def _compare_file(args: Namespace) -> PolicyComparison:
    options = [name for name in _STORE_OPTIONS if getattr(args, name) is not None]
    if options:
        problem = f"--{options[0]} selects in the store, and you named a file"
        raise UsageError(problem, help="filter when you export")
    registry = default_registry(*args.registry)
    with args.records.open("rb") as lines:
        return _compare_records(args, registry, read_lines(lines))


def _compare_records(
    args: Namespace, registry: Registry, records: Iterator[Any]
) -> PolicyComparison:
    policy = load_policy(args.policy, registry=registry)
    return compare_policy(policy, records, registry=registry, keep=args.limit)


def _comparison_to_json(found: PolicyComparison) -> dict[str, Any]:
    return {
        "sound": found.sound,
        "compared": found.compared,
        "changed": found.changed,
        "failed": found.failed,
        "skipped": found.skipped,
        "erased": found.erased,
        "verdicts": [
            {"before": before, "after": after, "count": count}
            for (before, after), count in sorted(found.verdicts.items())
        ],
        "codes": dict(sorted(found.codes.items())),
        "also": dict(sorted(found.also.items())),
        "changes": [change._asdict() for change in found.changes],
        "failures": [failure._asdict() for failure in found.failures],
    }


def _format_comparison(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    if found.changed:
        shown = [verdict for verdict in Verdict if any(verdict in pair for pair in found.verdicts)]
        rows = ((old, *(str(found.verdicts[old, new] or "-") for new in shown)) for old in shown)
        yield format_table(rows, ("WAS \\ WOULD BE", *shown), paint)
        yield ""
        yield from _format_counts(found, paint)
        yield from _format_changes(found, paint)
    for failure in found.failures:
        yield (
            one_line(f"{failure.decision_id}: ")
            + paint("error: ", "bold", "red")
            + one_line(failure.problem)
        )
    if found.failed > len(found.failures):
        yield paint(f"... and {found.failed - len(found.failures)} more errors", "dim")
    counts = [f"{found.compared} compared", f"{found.changed} would change"]
    counts += [f"{found.failed} could not be compared"] if found.failed else []
    counts += [f"{found.skipped} skipped (no policy decided)"] if found.skipped else []
    counts += [f"{found.erased} erased"] if found.erased else []
    words = ", ".join(counts)
    if not found.compared:
        words += ": nothing to compare"
    colour = "red" if not found.sound else "yellow" if found.changed else "green"
    yield paint(words, colour)


def _format_counts(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    rows = [(str(count), name) for name, count in found.codes.most_common()]
    rows += [(str(count), f"another {name}") for name, count in found.also.most_common()]
    yield format_table(rows, ("COUNT", "CHANGE"), paint)
    yield ""


def _format_changes(found: PolicyComparison, paint: Paint) -> Iterator[str]:
    if not found.changes:
        return
    rows = (
        (
            change.decision_id,
            change.action_type,
            change.before
            if change.before is change.after
            else f"{change.before} -> {change.after}",
            _describe_change(change),
        )
        for change in found.changes
    )
    yield format_table(rows, ("DECISION", "ACTION", "VERDICT", "CHANGE"), paint)
    if found.changed > len(found.changes):
        yield paint(f"... and {found.changed - len(found.changes)} more", "dim")
    yield ""


def _describe_change(change: DecisionChange) -> str:
    codes = [
        *(f"-{code}" for code in change.codes_gone),
        *(f"+{code}" for code in change.codes_new),
    ]
    return ", ".join(codes) or f"another {', '.join(change.also)}"
