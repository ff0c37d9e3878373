"""`demur replay`: verify a pack, replay its decision, and compare the result."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from demur.audit.container import CONTAINER, LARGEST
from demur.audit.difference import SEALED_FIELD
from demur.audit.pack import Pack, PackError, read_pack
from demur.audit.replay import Replay, Unreplayable, check_heads, replay
from demur.audit.story import amount_text
from demur.classification.keys import KeyRing
from demur.cli.records import labelled
from demur.cli.terminal import Paint
from demur.codes.export.markup import code
from demur.errors import InputError, one_line
from demur.gate.config import trusted_keys
from demur.model.record import DecisionRecord
from demur.store.heads import read_heads
from demur.version import __version__

__all__ = ["configure", "run"]

DIFFERENT, UNREPLAYABLE = 1, 6


class _Told(NamedTuple):
    """The outcome of a replay, or the reason why there was none."""

    record: DecisionRecord | None
    result: str
    notes: tuple[str, ...] = ()
    replay: Replay | None = None
    problem: str | None = None
    where: str | None = None


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    """Print the outcome of the replay; 0 if the decision is the same."""
    told = _told(args)
    if told.replay is None and not args.json and told.result == "tampered":
        # Report tampering like any error: on standard error, with its place.
        raise PackError(told.problem or "", where=told.where)
    if args.json:
        print(json.dumps(_as_json(told), indent=2))
    else:
        print("\n".join(_markdown(told) if args.markdown else _text(told, Paint())))
    return {"same": 0, "not_replayable": UNREPLAYABLE}.get(told.result, DIFFERENT)


def _told(args: argparse.Namespace) -> _Told:
    keys = None if args.keys is None else _ring(args.keys)
    heads = None if args.heads is None else read_heads(_json(args.heads))
    pack: Pack | None = None
    notes: tuple[str, ...] = ()
    try:
        pack = read_pack(_raw(args.pack), keys)
        notes = () if heads is None else check_heads(pack.record, heads)
        result = replay(pack)
    except PackError as error:
        record = None if pack is None else pack.record
        return _Told(record, "tampered", notes, problem=error.problem, where=error.where)
    except Unreplayable as error:
        record = None if pack is None else pack.record
        return _Told(record, "not_replayable", notes, problem=error.problem, where=error.where)
    same = "same" if result.same else "different"
    return _Told(result.record, same, (*result.notes, *notes), result)


def _ring(paths: list[Path]) -> KeyRing:
    return KeyRing(key for path in paths for key in trusted_keys(str(path)).values())


def _raw(path: Path) -> bytes:
    if path.stat().st_size > LARGEST:
        raise PackError(f"a pack has at most {LARGEST} bytes", where=CONTAINER)
    return path.read_bytes()


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError("not JSON", where=str(path)) from error


def _as_json(told: _Told) -> dict[str, Any]:
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


def _verdict(told: _Told) -> str:
    if told.replay is None:
        return f"not replayable: {told.where}: {told.problem}"
    count = len(told.replay.differences)
    many = f"{count} fields differ" if count > 1 else "1 field differs"
    return many if count else "same decision"


def _text(told: _Told, paint: Paint) -> Iterator[str]:
    assert told.record is not None
    yield from labelled(_summary(told.record), paint)
    colour = {"same": "green", "different": "red"}.get(told.result, "yellow")
    yield paint(one_line(_verdict(told)), "bold", colour)
    for field, recorded, replayed in () if told.replay is None else told.replay.differences:
        yield f"  {one_line(field)}"
        yield f"    recorded {json.dumps(recorded)}"
        yield f"    replayed {json.dumps(replayed)}"
    for note in told.notes:
        yield f"{paint('note:', 'cyan')} {one_line(note)}"


def _summary(record: DecisionRecord) -> Iterator[tuple[str, str]]:
    amount = amount_text(record)
    yield "id", f"{record.decision_id}, tenant {record.tenant}, {record.created_at}"
    yield "what", f"{record.action_type}{f' of {amount}' if amount else ''}"
    yield "says", f"{record.verdict}, {record.decision_output}"
    if record.reason_codes:
        yield "code", ", ".join(record.reason_codes)
    if record.matched_rules:
        yield "rule", ", ".join(f"{rule.rule_id} ({rule.stage})" for rule in record.matched_rules)


def _markdown(told: _Told) -> Iterator[str]:
    record = told.record
    assert record is not None
    yield f"### Replay of {code(record.decision_id)}: {one_line(_verdict(told))}"
    yield ""
    yield f"- **Verdict** {record.verdict}, {record.decision_output}"
    if record.reason_codes:
        yield f"- **Codes** {', '.join(map(code, record.reason_codes))}"
    for rule in record.matched_rules:
        yield f"- **Rule** {code(rule.rule_id)} ({rule.stage})"
    policy = record.policy
    yield f"- **Policy** {code(f'{policy.policy_id} {policy.policy_version}')}"
    for field, recorded, replayed in () if told.replay is None else told.replay.differences:
        values = f": recorded {code(json.dumps(recorded))}, replayed {code(json.dumps(replayed))}"
        personal = field.startswith(SEALED_FIELD)
        yield f"- **Differs** {code(field)}{' (personal, not shown)' if personal else values}"
    for note in told.notes:
        yield f"- {one_line(note)}"
