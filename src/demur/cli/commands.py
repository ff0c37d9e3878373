"""The command table, and the parser that is built from it.

Exit statuses are part of the contract: 0 execute, 1 error, 2 usage, 3 refuse,
4 need context, 5 constrained, 6 could not judge.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from demur.version import __version__

__all__ = ["COMMANDS", "GROUPS", "STATUSES", "CliCommand", "build_parser"]

STATUSES = "exit: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context, 5 constrained, 6 unjudged"


class CliCommand(NamedTuple):
    """One command: its name, where its functions are (`module[:NAME]`), and its summary."""

    name: str
    module: str
    summary: str


class CommandHandler(Protocol):
    """The functions that every command provides."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status."""


# The module of a command is imported only when the command is chosen, so that it starts fast.
COMMANDS = (
    CliCommand(
        "demo", "demur.cli.demo", "show a short offline tour: format, parse, decide, prove, explain"
    ),
    CliCommand(
        "init", "demur.cli.init", "create a working folder: settings, a policy, samples, a store"
    ),
    CliCommand("decide", "demur.cli.decide", "decide requests by policy, and store each decision"),
    CliCommand("show", "demur.cli.show", "show a decision, or the newest ones"),
    CliCommand(
        "explain", "demur.cli.explain", "explain why a decision was made, and how to proceed"
    ),
    CliCommand(
        "approve", "demur.cli.approve", "sign a grant for one decision, and resolve the decision"
    ),
    CliCommand("learn", "demur.cli.learn", "record how a decision turned out, for later decisions"),
    CliCommand("forget", "demur.cli.forget", "delete learned experiences"),
    CliCommand("export", "demur.cli.export", "write decisions to files: JSON, lines, or a pack"),
    CliCommand(
        "replay", "demur.cli.replay", "replay the decision in a pack, and compare the result"
    ),
    CliCommand("diff", "demur.cli.diff", "compare a policy with past decisions"),
    CliCommand(
        "serve",
        "demur.cli.serve",
        "serve decisions, guards, records and the dashboard over HTTP",
    ),
    CliCommand("keys create", "demur.cli.keys_create", "create an API key of the service"),
    CliCommand("keys list", "demur.cli.keys_list", "list the API keys of the service"),
    CliCommand("keys revoke", "demur.cli.keys_revoke", "revoke an API key"),
    CliCommand("monitor", "demur.cli.monitor", "watch decisions and top codes in the terminal"),
    CliCommand(
        "doctor", "demur.cli.doctor", "check settings, policy, store, permissions, clock and disk"
    ),
    CliCommand(
        "audit verify", "demur.cli.audit_verify", "prove that no record was changed or lost"
    ),
    CliCommand(
        "audit heads", "demur.cli.audit_heads", "export the heads of the chains, to keep elsewhere"
    ),
    CliCommand(
        "audit checkpoint", "demur.cli.audit_checkpoint", "store the current heads of the chains"
    ),
    CliCommand(
        "audit erase", "demur.cli.audit_erase", "erase the personal data in a subject's records"
    ),
    CliCommand("audit retire", "demur.cli.audit_retire", "delete a tenant's oldest records"),
    CliCommand("guard input", "demur.cli.guard_surface:INPUT", "check a user prompt"),
    CliCommand("guard output", "demur.cli.guard_surface:OUTPUT", "check a model answer"),
    CliCommand("guard tool_call", "demur.cli.guard_surface:TOOL_CALL", "check a tool call"),
    CliCommand(
        "guard tool_loop", "demur.cli.guard_surface:TOOL_LOOP", "check tool calls for loops"
    ),
    CliCommand("guard tool_result", "demur.cli.guard_surface:TOOL_RESULT", "check a tool result"),
    CliCommand("guard retrieval", "demur.cli.guard_surface:RETRIEVAL", "check a retrieved passage"),
    CliCommand(
        "guard compaction",
        "demur.cli.guard_surface:COMPACTION",
        "compare a compacted context with the original",
    ),
    CliCommand(
        "guard code_execution",
        "demur.cli.guard_surface:CODE_EXECUTION",
        "check a command or code before it runs",
    ),
    CliCommand("guard rate", "demur.cli.guard_surface:RATE", "check a use against a rate limit"),
    CliCommand("guard list", "demur.cli.guard_list", "list the guards, built in and installed"),
    CliCommand(
        "guard rules", "demur.cli.guard_rules", "list text rules, and test them on their own rows"
    ),
    CliCommand(
        "guard skill", "demur.cli.guard_skill", "scan a skill's folder before it is trusted"
    ),
    CliCommand(
        "respond",
        "demur.cli.respond",
        "render a refusal as text for a user, an agent or an operator",
    ),
    CliCommand("lint refusal", "demur.cli.lint_refusal", "check the wording of refusals"),
    CliCommand("detect", "demur.cli.detect", "count the refusals that models wrote as prose"),
    CliCommand("emit", "demur.cli.emit", "write a refusal in the form another system reads"),
    CliCommand("normalize", "demur.cli.normalize", "read the refusal in a provider's response"),
    CliCommand("triage", "demur.cli.triage", "count the refusals in logs of any size and kind"),
    CliCommand(
        "alerts check",
        "demur.cli.alerts_check",
        "evaluate alert rules on a store or a log, and notify a webhook",
    ),
    CliCommand("alerts list", "demur.cli.alerts_list", "list alert rules"),
    CliCommand(
        "alerts export",
        "demur.cli.alerts_export",
        "write alert rules for Prometheus, Grafana or Datadog",
    ),
    CliCommand("eval suites", "demur.cli.eval_suites", "list eval suites, or show one"),
    CliCommand("eval run", "demur.cli.eval_run", "run a suite against a target, or resume a run"),
    CliCommand("eval report", "demur.cli.eval_report", "report a run against its thresholds"),
    CliCommand(
        "eval compare", "demur.cli.eval_compare", "list the rows that flipped between two runs"
    ),
    CliCommand(
        "eval gate", "demur.cli.eval_gate", "fail if a run is significantly worse than its baseline"
    ),
    CliCommand("eval history", "demur.cli.eval_history", "show a folder of runs over time"),
    CliCommand(
        "eval remediate",
        "demur.cli.eval_remediate",
        "make training pairs from the mistakes of a run",
    ),
    CliCommand(
        "eval from-store",
        "demur.cli.eval_from_store",
        "turn labelled decisions into eval rows and pairs",
    ),
    CliCommand(
        "eval dpo", "demur.cli.eval_dpo", "train with DPO at several betas, and measure each"
    ),
    CliCommand("eval import", "demur.cli.eval_import", "convert the file of a public suite"),
    CliCommand("format", "demur.cli.format_line", "write a refusal line"),
    CliCommand("parse", "demur.cli.parse_lines", "read refusals out of lines"),
    CliCommand(
        "classify", "demur.cli.classify", "print class and output for a verdict and its codes"
    ),
    CliCommand("codes list", "demur.cli.codes_list", "list reason codes"),
    CliCommand("codes explain", "demur.cli.codes_explain", "explain one reason code"),
    CliCommand("codes lint", "demur.cli.codes_lint", "find misused codes in sources and policies"),
    CliCommand(
        "codes diff", "demur.cli.codes_diff", "check whether a registry may replace another"
    ),
    CliCommand("codes export", "demur.cli.codes_export", "write the registry in another format"),
    CliCommand("codes new", "demur.cli.codes_new", "add a code to a registry file"),
    CliCommand("policy validate", "demur.cli.policy_validate", "check whether policies are valid"),
    CliCommand("policy lint", "demur.cli.policy_lint", "find probable mistakes in policies"),
    CliCommand("policy test", "demur.cli.policy_test", "test a policy on tables of cases"),
    CliCommand("policy show", "demur.cli.policy_show", "print a policy in plain words"),
    CliCommand("policy import", "demur.cli.policy_import", "convert a Lumyn policy"),
    CliCommand("grant keygen", "demur.cli.grant_keygen", "make a key that can sign grants"),
    CliCommand("grant create", "demur.cli.grant_create", "sign a grant"),
    CliCommand("grant verify", "demur.cli.grant_verify", "check a grant offline"),
    CliCommand("grant revoke", "demur.cli.grant_revoke", "add a grant to a revocation list"),
    CliCommand(
        "hook claude-code",
        "demur.cli.hook_claude_code",
        "answer a hook event of Claude Code",
    ),
    CliCommand(
        "hook install",
        "demur.cli.hook_install",
        "add demur's hooks to a host's settings, after showing the diff",
    ),
    CliCommand("mcp proxy", "demur.cli.mcp_proxy", "guard an MCP server without changing it"),
    CliCommand("mcp pin", "demur.cli.mcp_pin", "pin the current tools of an MCP server"),
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
            module = _load_command(command.module)
            module.configure(child)
            child.set_defaults(run=module.run)
    return parser


def _load_command(location: str) -> CommandHandler:
    """Return the module at a place, or an object in one: `module:NAME`."""
    name, _, part = location.partition(":")
    module = import_module(name)
    return cast("CommandHandler", getattr(module, part) if part else module)
