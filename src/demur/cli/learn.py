"""`demur learn`: say how a decision turned out, so that later ones are held to it."""

import argparse
import json
from datetime import timedelta

from demur.cli.records import ID_HELP, find_record
from demur.cli.workspace import add_config, add_tenant, existing_gate, settings
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock
from demur.gate.config import Config
from demur.gate.learning import MIDDLE_SEVERITY
from demur.memory.experience import Outcome
from demur.store.rows import Experience

__all__ = ["configure", "run"]

_MOST_DAYS = 36_500


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--outcome",
        required=True,
        choices=[str(word) for word in Outcome],
        help="how it turned out",
    )
    parser.add_argument(
        "--severity",
        type=int,
        default=MIDDLE_SEVERITY,
        metavar="1-5",
        help="how bad a failure was; mild ones only ever ask a person",
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="a word on it; stays with the decision"
    )
    parser.add_argument("--by", default="", metavar="WHO", help="who says so")
    parser.add_argument("--expires", type=int, metavar="DAYS", help="forget it after so many days")
    add_tenant(parser, "the decision must be this tenant's")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Learn, and say what follows from it."""
    config = settings(args)
    gate, store = existing_gate(config)
    with gate:
        learned = gate.learn(
            find_record(store, args.id, args.tenant).decision_id,
            args.outcome,
            severity=args.severity,
            note=args.note,
            by=args.by,
            expires_at=None if args.expires is None else system_clock() + _days(args.expires),
        )
    if args.json:
        fields = learned._asdict()
        del fields["vector"]
        print(json.dumps(fields, indent=2))
    else:
        _print(learned, config)
    return 0


def _days(number: int) -> timedelta:
    if not 0 < number <= _MOST_DAYS:
        raise InputError(f"--expires takes from 1 to {_MOST_DAYS} days, not `{number}`")
    return timedelta(days=number)


def _print(learned: Experience, config: Config) -> None:
    until = "" if learned.expires_at is None else f", until {learned.expires_at[:10]}"
    bad = f", severity {learned.severity}" if learned.outcome == Outcome.FAILURE else ""
    what = f"{learned.outcome} of {learned.action_type}{bad}, tenant {learned.tenant}{until}"
    print(f"learned: {one_line(what)}")
    print(f"  {_follows(learned, config)}")
    print(f"  memory {learned.memory_id}; `demur forget` takes it back")


def _follows(learned: Experience, config: Config) -> str:
    """Return what the outcome means for later requests, by the settings in force."""
    memory = config.memory
    if memory is None:
        return "memory is off in the settings: nothing follows from it"
    if learned.outcome == Outcome.SUCCESS:
        if memory.lift:
            return f"an escalated request is let through from likeness {memory.allow} on"
        return "kept for the record; it lifts nothing unless `lift` is on under [memory]"
    if learned.severity < memory.block_severity:
        return f"a request like it asks a person from likeness {memory.escalate} on"
    return (
        f"a request like it is denied from likeness {memory.block} on, "
        f"and asks a person from {memory.escalate} on"
    )
