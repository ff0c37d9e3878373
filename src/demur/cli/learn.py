"""`demur learn`: record how a decision turned out, for later decisions."""

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
        help="the outcome",
    )
    parser.add_argument(
        "--severity",
        type=int,
        default=MIDDLE_SEVERITY,
        metavar="1-5",
        help="severity of a failure; mild failures only escalate later requests",
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="a note that is stored with the decision"
    )
    parser.add_argument("--by", default="", metavar="WHO", help="the reporter")
    parser.add_argument(
        "--expires", type=int, metavar="DAYS", help="days after which the experience expires"
    )
    add_tenant(parser, "require that the decision belongs to this tenant")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Store the experience, and print its effect."""
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
        raise InputError(f"--expires must be from 1 to {_MOST_DAYS} days, not `{number}`")
    return timedelta(days=number)


def _print(learned: Experience, config: Config) -> None:
    until = "" if learned.expires_at is None else f", until {learned.expires_at[:10]}"
    bad = f", severity {learned.severity}" if learned.outcome == Outcome.FAILURE else ""
    what = f"{learned.outcome} of {learned.action_type}{bad}, tenant {learned.tenant}{until}"
    print(f"learned: {one_line(what)}")
    print(f"  {_follows(learned, config)}")
    print(f"  memory {learned.memory_id}; `demur forget` deletes it")


def _follows(learned: Experience, config: Config) -> str:
    """Return the effect of the outcome on later requests under the current settings."""
    memory = config.memory
    if memory is None:
        return "memory is off in the settings, so this has no effect"
    if learned.outcome == Outcome.SUCCESS:
        if memory.lift:
            return f"escalated requests are allowed from similarity {memory.allow}"
        return "stored without effect; set `lift` under [memory] to let it lift escalations"
    if learned.severity < memory.block_severity:
        return f"similar requests escalate from similarity {memory.escalate}"
    return (
        f"similar requests are denied from similarity {memory.block}, "
        f"and escalate from {memory.escalate}"
    )
