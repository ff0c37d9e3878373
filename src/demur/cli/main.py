"""Run the `demur` command: the command table, the parser, and how errors are reported.

Exit statuses are part of the contract: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context,
5 constrained, 6 could not judge.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, cast

from demur.cli.terminal import Paint, print_problem
from demur.errors import DemurError, InputError
from demur.version import __version__

if TYPE_CHECKING:
    from io import TextIOWrapper


STATUSES = "exit: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context, 5 constrained, 6 unjudged"


class Arguments:
    """Adds arguments to a parser or a group; a call adds one.

    The `spec` of an argument is its name and its value, as in a synopsis. `--json` is a flag,
    `--out FILE` takes a value, and `--pin FILE ...` is repeatable. `file [FILE]` is positional
    and optional, `paths PATH...` takes one or more, `ids [ID...]` any number.
    """

    def __init__(self, parser: "argparse._ActionsContainer") -> None:
        self.parser: Any = parser

    def __call__(self, spec: str, help_text: str | None = None, **more: Any) -> None:
        """Add an argument; `more` goes to argparse."""
        name, _, value = spec.partition(" ")
        if not name.startswith("-"):
            optional, many = value.startswith("["), "..." in value
            value = value.strip("[]").removesuffix("...")
            if optional or many:
                more["nargs"] = "?" if not many else "*" if optional else "+"
        elif value.endswith("..."):
            more = {"action": "append", "default": [], **more}
            value = value.removesuffix("...").rstrip()
        elif not value and not more:
            more["action"] = "store_true"
        if value:
            more["metavar"] = value
        self.parser.add_argument(name, help=help_text, **more)

    def epilog(self, text: str) -> None:
        """Set the text below the help."""
        self.parser.epilog = text

    def either(self, *, required: bool = False) -> Self:
        """Return a group of arguments that exclude each other."""
        return type(self)(self.parser.add_mutually_exclusive_group(required=required))

    def group(self, title: str) -> Self:
        """Return a group of arguments with a title in the help."""
        return type(self)(self.parser.add_argument_group(title))


class CliCommand(NamedTuple):
    """One command: its name, where its functions are (`module[:NAME]`), and its summary."""

    name: str
    module: str
    summary: str


class CommandHandler(NamedTuple):
    """The functions of a command: one adds its arguments, the other runs it."""

    configure: Callable[[Arguments], None]
    run: Callable[[argparse.Namespace], int]


# The module of a command is imported only when the command is chosen, so that it starts fast.
COMMANDS = (
    CliCommand(
        "demo",
        "demur.cli.start",
        "show a short offline tour: format, parse, decide, prove, explain",
    ),
    CliCommand(
        "init", "demur.cli.start", "create a working folder: settings, a policy, samples, a store"
    ),
    CliCommand("decide", "demur.cli.decide", "decide requests by policy, and store each decision"),
    CliCommand("show", "demur.cli.records", "show a decision, or the newest ones"),
    CliCommand(
        "explain", "demur.cli.records", "explain why a decision was made, and how to proceed"
    ),
    CliCommand(
        "approve", "demur.cli.decide", "sign a grant for one decision, and resolve the decision"
    ),
    CliCommand(
        "learn", "demur.cli.decide", "record how a decision turned out, for later decisions"
    ),
    CliCommand("forget", "demur.cli.decide", "delete learned experiences"),
    CliCommand("export", "demur.cli.export", "write decisions to files: JSON, lines, or a pack"),
    CliCommand(
        "replay", "demur.cli.export", "replay the decision in a pack, and compare the result"
    ),
    CliCommand("diff", "demur.cli.export", "compare a policy with past decisions"),
    CliCommand(
        "serve", "demur.cli.service", "serve decisions, guards, records and the dashboard over HTTP"
    ),
    CliCommand("keys create", "demur.cli.service", "create an API key of the service"),
    CliCommand("keys list", "demur.cli.service", "list the API keys of the service"),
    CliCommand("keys revoke", "demur.cli.service", "revoke an API key"),
    CliCommand("monitor", "demur.cli.service", "watch decisions and top codes in the terminal"),
    CliCommand(
        "doctor", "demur.cli.doctor", "check settings, policy, store, permissions, clock and disk"
    ),
    CliCommand("audit verify", "demur.cli.audit", "prove that no record was changed or lost"),
    CliCommand(
        "audit heads", "demur.cli.audit", "export the heads of the chains, to keep elsewhere"
    ),
    CliCommand("audit checkpoint", "demur.cli.audit", "store the current heads of the chains"),
    CliCommand("audit erase", "demur.cli.audit", "erase the personal data in a subject's records"),
    CliCommand("audit retire", "demur.cli.audit", "delete a tenant's oldest records"),
    CliCommand("guard input", "demur.cli.guards:INPUT", "check a user prompt"),
    CliCommand("guard output", "demur.cli.guards:OUTPUT", "check a model answer"),
    CliCommand("guard tool_call", "demur.cli.guards:TOOL_CALL", "check a tool call"),
    CliCommand("guard tool_loop", "demur.cli.guards:TOOL_LOOP", "check tool calls for loops"),
    CliCommand("guard tool_result", "demur.cli.guards:TOOL_RESULT", "check a tool result"),
    CliCommand("guard retrieval", "demur.cli.guards:RETRIEVAL", "check a retrieved passage"),
    CliCommand(
        "guard compaction",
        "demur.cli.guards:COMPACTION",
        "compare a compacted context with the original",
    ),
    CliCommand(
        "guard code_execution",
        "demur.cli.guards:CODE_EXECUTION",
        "check a command or code before it runs",
    ),
    CliCommand("guard rate", "demur.cli.guards:RATE", "check a use against a rate limit"),
    CliCommand("guard list", "demur.cli.guards", "list the guards, built in and installed"),
    CliCommand(
        "guard rules", "demur.cli.guards", "list text rules, and test them on their own rows"
    ),
    CliCommand("guard skill", "demur.cli.skills", "scan a skill's folder before it is trusted"),
    CliCommand(
        "respond",
        "demur.cli.formats",
        "render a refusal as text for a user, an agent or an operator",
    ),
    CliCommand("lint refusal", "demur.cli.lint", "check the wording of refusals"),
    CliCommand("detect", "demur.cli.detect", "count the refusals that models wrote as prose"),
    CliCommand("emit", "demur.cli.formats", "write a refusal in the form another system reads"),
    CliCommand("normalize", "demur.cli.formats", "read the refusal in a provider's response"),
    CliCommand("triage", "demur.cli.triage", "count the refusals in logs of any size and kind"),
    CliCommand(
        "alerts check",
        "demur.cli.alerts",
        "evaluate alert rules on a store or a log, and notify a webhook",
    ),
    CliCommand("alerts list", "demur.cli.alerts", "list alert rules"),
    CliCommand(
        "alerts export", "demur.cli.alerts", "write alert rules for Prometheus, Grafana or Datadog"
    ),
    CliCommand("eval suites", "demur.cli.eval_run", "list eval suites, or show one"),
    CliCommand("eval run", "demur.cli.eval_run", "run a suite against a target, or resume a run"),
    CliCommand("eval report", "demur.cli.eval_report", "report a run against its thresholds"),
    CliCommand(
        "eval compare", "demur.cli.eval_report", "list the rows that flipped between two runs"
    ),
    CliCommand(
        "eval gate",
        "demur.cli.eval_report",
        "fail if a run is significantly worse than its baseline",
    ),
    CliCommand("eval history", "demur.cli.eval_report", "show a folder of runs over time"),
    CliCommand(
        "eval remediate", "demur.cli.eval_train", "make training pairs from the mistakes of a run"
    ),
    CliCommand(
        "eval from-store",
        "demur.cli.eval_train",
        "turn labelled decisions into eval rows and pairs",
    ),
    CliCommand(
        "eval dpo", "demur.cli.eval_train", "train with DPO at several betas, and measure each"
    ),
    CliCommand("eval import", "demur.cli.eval_run", "convert the file of a public suite"),
    CliCommand("format", "demur.cli.refusals", "write a refusal line"),
    CliCommand("parse", "demur.cli.refusals", "read refusals out of lines"),
    CliCommand(
        "classify", "demur.cli.refusals", "print class and output for a verdict and its codes"
    ),
    CliCommand("codes list", "demur.cli.codes", "list reason codes"),
    CliCommand("codes explain", "demur.cli.codes", "explain one reason code"),
    CliCommand("codes lint", "demur.cli.lint", "find misused codes in sources and policies"),
    CliCommand("codes diff", "demur.cli.codes", "check whether a registry may replace another"),
    CliCommand("codes export", "demur.cli.codes", "write the registry in another format"),
    CliCommand("codes new", "demur.cli.codes", "add a code to a registry file"),
    CliCommand("policy validate", "demur.cli.policy", "check whether policies are valid"),
    CliCommand("policy lint", "demur.cli.lint", "find probable mistakes in policies"),
    CliCommand("policy test", "demur.cli.policy", "test a policy on tables of cases"),
    CliCommand("policy show", "demur.cli.policy", "print a policy in plain words"),
    CliCommand("policy import", "demur.cli.policy", "convert a Lumyn policy"),
    CliCommand("grant keygen", "demur.cli.grants", "make a key that can sign grants"),
    CliCommand("grant create", "demur.cli.grants", "sign a grant"),
    CliCommand("grant verify", "demur.cli.grants", "check a grant offline"),
    CliCommand("grant revoke", "demur.cli.grants", "add a grant to a revocation list"),
    CliCommand(
        "hook claude-code", "demur.cli.hook_claude_code", "answer a hook event of Claude Code"
    ),
    CliCommand(
        "hook install",
        "demur.cli.hook_install",
        "add demur's hooks to a host's settings, after showing the diff",
    ),
    CliCommand("mcp proxy", "demur.cli.mcp", "guard an MCP server without changing it"),
    CliCommand("mcp pin", "demur.cli.mcp", "pin the current tools of an MCP server"),
)
GROUPS = {
    "alerts": "evaluate, list and export alert rules",
    "audit": "verify, export, erase and retire records",
    "codes": "work with the registry of reason codes",
    "eval": "measure missed harm and false refusals",
    "guard": "run the guards of a surface",
    "hook": "answer and install hooks of agent hosts",
    "keys": "manage the API keys of the service",
    "lint": "check the wording of refusals",
    "mcp": "guard MCP servers",
    "policy": "validate, test and show policies",
    "grant": "sign and check grants, which lift workflow blocks",
}


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser, with the arguments of the command that `words` choose (None: of all)."""
    parser = argparse.ArgumentParser(
        prog="demur", description="The refusal contract for AI agents.", epilog=STATUSES
    )
    parser.add_argument("--version", action="version", version=f"demur {__version__}")
    top = parser.add_subparsers(metavar="COMMAND")
    groups = {
        name: top.add_parser(name, help=summary, description=summary).add_subparsers(
            metavar="COMMAND", required=True
        )
        for name, summary in GROUPS.items()
    }
    for command in COMMANDS:
        group, _, leaf = command.name.rpartition(" ")
        place = groups[group] if group else top
        child = place.add_parser(leaf, help=command.summary, description=command.summary)
        names = command.name.split()
        if words is None or list(words[: len(names)]) == names:
            handler = _load_command(command)
            handler.configure(Arguments(child))
            child.set_defaults(run=handler.run)
    return parser


def _load_command(command: CliCommand) -> CommandHandler:
    """Import the module of a command, and return its `configure_NAME` and `run_NAME`.

    A command that is an object, `module:OBJECT`, has them as methods `configure` and `run`.
    """
    location, _, part = command.module.partition(":")
    module = import_module(location)
    if part:
        handler = getattr(module, part)
        return CommandHandler(handler.configure, handler.run)
    name = command.name.replace(" ", "_").replace("-", "_")
    return CommandHandler(getattr(module, f"configure_{name}"), getattr(module, f"run_{name}"))


INTERRUPTED = 130
CLOSED_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words)
    args = parser.parse_args(words)
    if "run" not in args:
        parser.print_help()
        return 2
    try:
        status = cast("int", args.run(args))
        # Flush here, so that a closed pipe raises while the handlers below can still catch it.
        sys.stdout.flush()
    except DemurError as error:
        return _report_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. Scripts must not take that for success.
        _close_output()
        return CLOSED_PIPE
    except OSError as error:
        reason = str(error.strerror or error).lower()
        if error.filename is None:
            _close_output()
        return _report_error(InputError(reason, where=str(error.filename or "output")))
    return status


def _close_output() -> None:
    """Redirect standard output to devnull, so that the flush at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_error(error: DemurError) -> int:
    paint = Paint(sys.stderr)
    for problem in error.problems:
        text = f"{problem.where}: {problem.problem}" if problem.where else problem.problem
        print_problem(paint, None, paint("error:", "bold", "red"), text, problem.help)
    return 1


def run() -> NoReturn:
    """Run the command line of this process and exit with its status."""
    # A console that cannot encode a character shows its escape instead of raising.
    cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")
    sys.exit(main())
