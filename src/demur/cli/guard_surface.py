"""`demur guard SURFACE`: run the guards of a surface on a text or an event."""

import argparse
import json
import sys

from demur.cli.guard_event import read_guard_config, read_event_file
from demur.cli.guard_report import judge_findings, locate_findings, print_findings
from demur.cli.options import add_registry_option
from demur.cli.request_files import STANDARD_INPUT
from demur.codes.default import default_registry
from demur.codes.vocabulary import Surface
from demur.guards.builtin import find_builtin
from demur.guards.checking import check
from demur.guards.sarif import to_sarif

__all__ = [
    "CODE_EXECUTION",
    "COMPACTION",
    "INPUT",
    "OUTPUT",
    "RATE",
    "RETRIEVAL",
    "TOOL_CALL",
    "TOOL_LOOP",
    "TOOL_RESULT",
    "SurfaceCommand",
]

_SURFACE_EPILOG = (
    "exit: 0 nothing found, or only warnings; 1 an error; 2 usage; 3 a finding blocks;"
    " 4 a person should review it; 6 it could not be judged"
)


class SurfaceCommand:
    """The command of one surface."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._takes_text = find_builtin(surface).text not in {None, "name"}

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        parser.epilog = _SURFACE_EPILOG
        what = "the text to check" if self._takes_text else "the event to check, as JSON"
        parser.add_argument(
            "file",
            nargs="?",
            default=STANDARD_INPUT,
            metavar="FILE",
            help=f"{what}; `-` is standard input",
        )
        if self._takes_text:
            parser.add_argument(
                "--event", action="store_true", help="read an event as JSON instead of text"
            )
            parser.add_argument(
                "--rules",
                metavar="FILE",
                help="use the text rules in this file; default: the built-in rules",
            )
        parser.add_argument(
            "--config", metavar="FILE", help="settings of the guard, as YAML or JSON"
        )
        add_registry_option(parser)
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="one JSON object")
        form.add_argument("--sarif", action="store_true", help="a SARIF 2.1.0 log")

    def run(self, args: argparse.Namespace) -> int:
        """Print the findings, and return the status of the outcome."""
        registry = default_registry(*args.registry)
        rules = args.rules if self._takes_text else None
        config = read_guard_config(self._surface, args.config, rules, registry)
        as_json = not self._takes_text or args.event
        read = read_event_file(self._surface, args.file, as_json=as_json)
        if read.replaced:
            print(
                f"note: {read.where} is not valid UTF-8; invalid bytes were replaced",
                file=sys.stderr,
            )
        findings = check(self._surface, read.event, config)
        found = locate_findings(findings, read.event)
        ended = judge_findings(findings, registry)
        if args.json:
            rows = [one.as_json for one in found]
            said = {"surface": self._surface, "outcome": ended.word, "status": ended.status}
            print(json.dumps({**said, "findings": rows}, indent=2))
        elif args.sarif:
            located = [one.with_location for one in found]
            artifact = None if args.file == STANDARD_INPUT else args.file
            print(json.dumps(to_sarif(located, registry=registry, artifact=artifact), indent=2))
        else:
            print_findings(found, read.where, registry)
        return ended.status


INPUT = SurfaceCommand(Surface.INPUT)
OUTPUT = SurfaceCommand(Surface.OUTPUT)
TOOL_CALL = SurfaceCommand(Surface.TOOL_CALL)
TOOL_LOOP = SurfaceCommand(Surface.TOOL_LOOP)
TOOL_RESULT = SurfaceCommand(Surface.TOOL_RESULT)
RETRIEVAL = SurfaceCommand(Surface.RETRIEVAL)
COMPACTION = SurfaceCommand(Surface.COMPACTION)
CODE_EXECUTION = SurfaceCommand(Surface.CODE_EXECUTION)
RATE = SurfaceCommand(Surface.RATE)
