"""`demur learn`: record how a decision turned out, for later decisions."""

import argparse
import json
from datetime import timedelta

from demur.cli.records import ID_HELP, find_record
from demur.cli.workspace import (
    add_config_option,
    add_tenant_option,
    open_existing_gate,
    load_settings,
)
from demur.errors import InputError, one_line
from demur.gate.clock import system_clock
from demur.gate.config import Config
from demur.gate.learning import DEFAULT_SEVERITY
from demur.memory.experience import ActionOutcome
from demur.store.rows import ExperienceRow

__all__ = ["configure_learn", "run_learn"]

_MAX_DAYS = 36_500


def configure_learn(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", metavar="ID", help=ID_HELP)
    parser.add_argument(
        "--outcome",
        required=True,
        choices=[str(word) for word in ActionOutcome],
        help="the outcome",
    )
    parser.add_argument(
        "--severity",
        type=int,
        default=DEFAULT_SEVERITY,
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
    add_tenant_option(parser, "require that the decision belongs to this tenant")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_config_option(parser)


def run_learn(args: argparse.Namespace) -> int:
    """Store the experience, and print its effect."""
    config = load_settings(args)
    gate, store = open_existing_gate(config)
    with gate:
        learned = gate.learn(
            find_record(store, args.id, args.tenant).decision_id,
            args.outcome,
            severity=args.severity,
            note=args.note,
            reviewer=args.by,
            expires_at=None if args.expires is None else system_clock() + _parse_days(args.expires),
        )
    if args.json:
        fields = learned._asdict()
        del fields["vector"]
        print(json.dumps(fields, indent=2))
    else:
        _print_experience(learned, config)
    return 0


def _parse_days(number: int) -> timedelta:
    if not 0 < number <= _MAX_DAYS:
        raise InputError(f"--expires must be from 1 to {_MAX_DAYS} days, not `{number}`")
    return timedelta(days=number)


def _print_experience(learned: ExperienceRow, config: Config) -> None:
    until = "" if learned.expires_at is None else f", until {learned.expires_at[:10]}"
    bad = f", severity {learned.severity}" if learned.outcome == ActionOutcome.FAILURE else ""
    what = f"{learned.outcome} of {learned.action_type}{bad}, tenant {learned.tenant}{until}"
    print(f"learned: {one_line(what)}")
    print(f"  {_describe_effect(learned, config)}")
    print(f"  memory {learned.memory_id}; `demur forget` deletes it")


def _describe_effect(learned: ExperienceRow, config: Config) -> str:
    """Return the effect of the outcome on later requests under the current settings."""
    memory = config.memory
    if memory is None:
        return "memory is off in the settings, so this has no effect"
    if learned.outcome == ActionOutcome.SUCCESS:
        if memory.lift:
            return f"escalated requests are allowed from similarity {memory.allow}"
        return "stored without effect; set `lift` under [memory] to let it lift escalations"
    if learned.severity < memory.block_severity:
        return f"similar requests escalate from similarity {memory.escalate}"
    return (
        f"similar requests are denied from similarity {memory.block}, "
        f"and escalate from {memory.escalate}"
    )
