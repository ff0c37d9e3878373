"""`demur replay_pack`: verify a pack, replay its decision, and compare the result."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from demur.audit.container import CONTAINER, MAX_PACK_BYTES
from demur.audit.difference import SEALED_FIELD
from demur.audit.pack import Pack, PackError, read_pack
from demur.audit.replay import ReplayResult, Unreplayable, check_heads, replay_pack
from demur.audit.story import format_amount
from demur.classification.keys import KeyRing
from demur.cli.records import label_lines
from demur.cli.terminal import Paint
from demur.codes.export.markup import markdown_code
from demur.errors import InputError, one_line
from demur.gate.config import load_trusted_keys
from demur.model.record import DecisionRecord
from demur.store.heads import read_heads
from demur.version import __version__

__all__ = ["configure_replay", "run_replay"]

DIFFERENT, UNREPLAYABLE = 1, 6


class _ReplayOutcome(NamedTuple):
    """The outcome of a replay, or the reason why there was none."""

    record: DecisionRecord | None
    result: str
    notes: tuple[str, ...] = ()
    replay: ReplayResult | None = None
    problem: str | None = None
    where: str | None = None


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "exit: 0 the same decision; 1 it differs, or the pack was changed; 6 it cannot be "
        "replayed (erased, redacted, or decided by demur itself); 2 usage. Decisions of other "
        "versions are compared as strictly as those of this version, and both versions are named"
    )
    parser.add_argument("pack", type=Path, metavar="PACK", help="a file of `demur export --pack`")
    parser.add_argument(
        "--heads",
        type=Path,
        metavar="FILE",
        help="verify the pack against heads of `demur audit heads`",
    )
    parser.add_argument(
        "--keys",
        action="append",
        type=Path,
        metavar="FILE",
        help="require a signature by one of these trusted keys; repeatable",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--markdown", action="store_true", help="a summary for a ticket, without personal data"
    )
    form.add_argument("--json", action="store_true", help="one JSON object")


def run_replay(args: argparse.Namespace) -> int:
    """Print the outcome of the replay; 0 if the decision is the same."""
    told = _replay_pack(args)
    if told.replay is None and not args.json and told.result == "tampered":
        # Report tampering like any error: on standard error, with its place.
        raise PackError(told.problem or "", where=told.where)
    if args.json:
        print(json.dumps(_outcome_to_json(told), indent=2))
    else:
        print(
            "\n".join(_format_markdown(told) if args.markdown else _format_outcome(told, Paint()))
        )
    return {"same": 0, "not_replayable": UNREPLAYABLE}.get(told.result, DIFFERENT)


def _replay_pack(args: argparse.Namespace) -> _ReplayOutcome:
    keys = None if args.keys is None else _read_key_ring(args.keys)
    heads = None if args.heads is None else read_heads(_read_json(args.heads))
    pack: Pack | None = None
    notes: tuple[str, ...] = ()
    try:
        pack = read_pack(_read_pack_bytes(args.pack), keys)
        notes = () if heads is None else check_heads(pack.record, heads)
        result = replay_pack(pack)
    except PackError as error:
        record = None if pack is None else pack.record
        return _ReplayOutcome(record, "tampered", notes, problem=error.problem, where=error.where)
    except Unreplayable as error:
        record = None if pack is None else pack.record
        return _ReplayOutcome(
            record, "not_replayable", notes, problem=error.problem, where=error.where
        )
    same = "same" if result.same else "different"
    return _ReplayOutcome(result.record, same, (*result.notes, *notes), result)


def _read_key_ring(paths: list[Path]) -> KeyRing:
    return KeyRing(key for path in paths for key in load_trusted_keys(str(path)).values())


def _read_pack_bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_PACK_BYTES:
        raise PackError(f"a pack has at most {MAX_PACK_BYTES} bytes", where=CONTAINER)
    return path.read_bytes()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError("not JSON", where=str(path)) from error


def _outcome_to_json(told: _ReplayOutcome) -> dict[str, Any]:
    record, result = told.record, told.replay
    answer: dict[str, Any] = {"result": told.result, "replayed_by": __version__}
    if record is not None:
        answer |= {
            "decision_id": record.decision_id,
            "decided_by": record.determinism.engine_version,
            "verdict": record.verdict,
            "decision_output": record.decision_output,
            "reason_codes": list(record.reason_codes),
            "matched_rules": record["matched_rules"],
        }
    if told.problem is not None:
        answer |= {"where": told.where, "problem": told.problem}
    found = () if result is None else result.differences
    return {**answer, "differences": [d._asdict() for d in found], "notes": list(told.notes)}


def _describe_result(told: _ReplayOutcome) -> str:
    if told.replay is None:
        return f"not replayable: {told.where}: {told.problem}"
    count = len(told.replay.differences)
    many = f"{count} fields differ" if count > 1 else "1 field differs"
    return many if count else "same decision"


def _format_outcome(told: _ReplayOutcome, paint: Paint) -> Iterator[str]:
    assert told.record is not None
    yield from label_lines(_summarize_record(told.record), paint)
    colour = {"same": "green", "different": "red"}.get(told.result, "yellow")
    yield paint(one_line(_describe_result(told)), "bold", colour)
    for field, recorded, replayed in () if told.replay is None else told.replay.differences:
        yield f"  {one_line(field)}"
        yield f"    recorded {json.dumps(recorded)}"
        yield f"    replayed {json.dumps(replayed)}"
    for note in told.notes:
        yield f"{paint('note:', 'cyan')} {one_line(note)}"


def _summarize_record(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    amount = format_amount(record)
    yield "id", f"{record.decision_id}, tenant {record.tenant}, {record.created_at}"
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "says", f"{record.verdict}, {record.decision_output}"
    if record.reason_codes:
        yield "code", ", ".join(record.reason_codes)
    if record.matched_rules:
        yield "rule", ", ".join(f"{rule.rule_id} ({rule.stage})" for rule in record.matched_rules)


def _format_markdown(told: _ReplayOutcome) -> Iterator[str]:
    record = told.record
    assert record is not None
    yield f"### Replay of {markdown_code(record.decision_id)}: {one_line(_describe_result(told))}"
    yield ""
    yield f"- **Verdict** {record.verdict}, {record.decision_output}"
    if record.reason_codes:
        yield f"- **Codes** {', '.join(map(markdown_code, record.reason_codes))}"
    for rule in record.matched_rules:
        yield f"- **Rule** {markdown_code(rule.rule_id)} ({rule.stage})"
    policy = record.policy
    yield f"- **Policy** {markdown_code(f'{policy.policy_id} {policy.policy_version}')}"
    for field, recorded, replayed in () if told.replay is None else told.replay.differences:
        values = f": recorded {markdown_code(json.dumps(recorded))}, replayed {markdown_code(json.dumps(replayed))}"
        personal = field.startswith(SEALED_FIELD)
        yield f"- **Differs** {markdown_code(field)}{' (personal, not shown)' if personal else values}"
    for note in told.notes:
        yield f"- {one_line(note)}"
