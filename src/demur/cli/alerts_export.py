"""`demur alerts export`: the alert rules for Prometheus, Grafana or Datadog."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from demur.cli.alerts_list import add_rule_options, load_chosen_rules
from demur.cli.files import write_file
from demur.errors import InputError
from demur.observe.alerts.datadog import datadog_check, datadog_monitors
from demur.observe.alerts.grafana import grafana_dashboard
from demur.observe.alerts.prometheus import prometheus_rules
from demur.observe.alerts.rule import AlertRule

__all__ = ["EXPORT_FORMATS", "ExportFile", "configure_alerts_export", "run_alerts_export"]


class ExportFile(NamedTuple):
    """An exported file: its name, and the function that builds its content."""

    name: str
    make: Callable[[Sequence[AlertRule]], str]


def _encode_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# Without `--out`, the first file of a format is printed.
EXPORT_FORMATS: dict[str, tuple[ExportFile, ...]] = {
    "prometheus": (ExportFile("demur.rules.yml", prometheus_rules),),
    "grafana": (
        ExportFile("demur-dashboard.json", lambda rules: _encode_json(grafana_dashboard(rules))),
    ),
    "datadog": (
        ExportFile("demur-monitors.json", lambda rules: _encode_json(datadog_monitors(rules))),
        ExportFile("openmetrics.yaml", lambda _: datadog_check()),
    ),
}


def configure_alerts_export(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--to", required=True, choices=sorted(EXPORT_FORMATS), help="the target system"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="write the files to this folder; default: standard output",
    )
    add_rule_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the files, or their names, as JSON"
    )


def run_alerts_export(args: argparse.Namespace) -> int:
    """Write the rules in the chosen format."""
    rules = load_chosen_rules(args).rules
    forms = EXPORT_FORMATS[args.to]
    if args.out is None:
        made = {form.name: form.make(rules) for form in forms}
        sys.stdout.write(_encode_json(made) if args.json else made[forms[0].name])
        return 0
    _make_folder(args.out)
    paths = [args.out / form.name for form in forms]
    for path, form in zip(paths, forms, strict=True):
        write_file(path, form.make(rules))
    if args.json:
        print(json.dumps({"written": [str(path) for path in paths]}))
    else:
        print("\n".join(f"wrote {path}" for path in paths))
    return 0


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    # A path that holds a NUL is a ValueError, not an OSError.
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise InputError(f"cannot create the folder: {reason}", where=str(path)) from error
