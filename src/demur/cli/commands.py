"""The commands there are, and the parser that knows them.

Exit statuses are part of the contract: 0 execute, 1 error, 2 usage, 3 refuse,
4 need context, 5 constrained, 6 could not judge.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from demur.version import __version__

__all__ = ["COMMANDS", "GROUPS", "STATUSES", "Command", "build_parser"]

STATUSES = "exit: 0 execute, 1 error, 2 usage, 3 refuse, 4 need context, 5 constrained, 6 unjudged"


class Command(NamedTuple):
    """One command: the words that name it, what runs it (`module[:NAME]`), and its summary."""

    name: str
    module: str
    summary: str


class CommandModule(Protocol):
    """What the module of a command offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and return the exit status."""


# Modules are imported when their command is chosen, so a command starts fast.
COMMANDS = (
    Command(
        "demo", "demur.cli.demo", "a short tour, offline: format, parse, decide, prove, explain"
    ),
    Command(
        "init", "demur.cli.init", "make a working folder: settings, a policy, samples, a store"
    ),
    Command("decide", "demur.cli.decide", "decide requests by policy, and store each decision"),
    Command("show", "demur.cli.show", "show a decision, or the newest ones"),
    Command("explain", "demur.cli.explain", "tell why it was decided so, and how to go on"),
    Command("approve", "demur.cli.approve", "sign a grant for one decision, and resolve it"),
    Command("learn", "demur.cli.learn", "say how a decision turned out, for later ones"),
    Command("forget", "demur.cli.forget", "forget what was learned"),
    Command("export", "demur.cli.export", "write decisions to files: JSON, lines, or a pack"),
    Command("replay", "demur.cli.replay", "make the decision in a pack again, and compare"),
    Command("diff", "demur.cli.diff", "say what a policy would have decided about the past"),
    Command(
        "serve",
        "demur.cli.serve",
        "serve decisions, guards, records and the dashboard over HTTP",
    ),
    Command("keys create", "demur.cli.keys_create", "make a key of the service"),
    Command("keys list", "demur.cli.keys_list", "list the keys of the service"),
    Command("keys revoke", "demur.cli.keys_revoke", "make a key useless"),
    Command("monitor", "demur.cli.monitor", "watch decisions and top codes in the terminal"),
    Command("doctor", "demur.cli.doctor", "check settings, policy, store, rights, clock and disk"),
    Command("audit verify", "demur.cli.audit_verify", "prove that no record was changed or lost"),
    Command(
        "audit heads", "demur.cli.audit_heads", "export where the chains end, to keep elsewhere"
    ),
    Command("audit checkpoint", "demur.cli.audit_checkpoint", "note where the chains end now"),
    Command(
        "audit erase", "demur.cli.audit_erase", "erase what is personal in a subject's records"
    ),
    Command("audit retire", "demur.cli.audit_retire", "delete a tenant's oldest records"),
    Command("guard input", "demur.cli.guard_surface:INPUT", "look at what a user wrote"),
    Command("guard output", "demur.cli.guard_surface:OUTPUT", "look at what a model answered"),
    Command("guard tool_call", "demur.cli.guard_surface:TOOL_CALL", "look at a tool call"),
    Command(
        "guard tool_loop", "demur.cli.guard_surface:TOOL_LOOP", "look for circles in tool calls"
    ),
    Command(
        "guard tool_result", "demur.cli.guard_surface:TOOL_RESULT", "look at what a tool returned"
    ),
    Command(
        "guard retrieval", "demur.cli.guard_surface:RETRIEVAL", "look at a passage that was found"
    ),
    Command(
        "guard compaction",
        "demur.cli.guard_surface:COMPACTION",
        "hold a compacted context against the one before",
    ),
    Command(
        "guard code_execution",
        "demur.cli.guard_surface:CODE_EXECUTION",
        "look at a command or code that is about to run",
    ),
    Command("guard rate", "demur.cli.guard_surface:RATE", "hold a use against a rate limit"),
    Command("guard list", "demur.cli.guard_list", "list the guards, built in and installed"),
    Command("guard rules", "demur.cli.guard_rules", "list text rules, held to their own rows"),
    Command("guard skill", "demur.cli.guard_skill", "scan a skill's folder before it is trusted"),
    Command(
        "respond",
        "demur.cli.respond",
        "put a refusal in words, for a person, an agent or an operator",
    ),
    Command("lint refusal", "demur.cli.lint_refusal", "read refusals the way an editor would"),
    Command("detect", "demur.cli.detect", "count the refusals that models wrote as prose"),
    Command("emit", "demur.cli.emit", "write a refusal in the form another system reads"),
    Command("normalize", "demur.cli.normalize", "read the refusal in a provider's response"),
    Command("triage", "demur.cli.triage", "count the refusals in logs of any size and kind"),
    Command(
        "alerts check",
        "demur.cli.alerts_check",
        "hold alert rules against a store or a log, and tell who must know",
    ),
    Command("alerts list", "demur.cli.alerts_list", "list alert rules"),
    Command(
        "alerts export",
        "demur.cli.alerts_export",
        "write alert rules for Prometheus, Grafana or Datadog",
    ),
    Command("eval suites", "demur.cli.eval_suites", "list suites, and show what one holds"),
    Command("eval run", "demur.cli.eval_run", "put a suite to a target; a stopped run goes on"),
    Command("eval report", "demur.cli.eval_report", "say what a run came to, against its aims"),
    Command("eval compare", "demur.cli.eval_compare", "say what flipped between two runs"),
    Command("eval gate", "demur.cli.eval_gate", "stop a run that is worse by more than noise"),
    Command("eval history", "demur.cli.eval_history", "show a folder of runs over time"),
    Command(
        "eval remediate",
        "demur.cli.eval_remediate",
        "pairs to train on, from what went wrong in a run",
    ),
    Command("eval from-store", "demur.cli.eval_from_store", "labelled decisions as rows and pairs"),
    Command("eval dpo", "demur.cli.eval_dpo", "train with several betas, and measure each"),
    Command("eval import", "demur.cli.eval_import", "read a public suite's own file"),
    Command("format", "demur.cli.format_line", "write a refusal line"),
    Command("parse", "demur.cli.parse_lines", "read refusals out of lines"),
    Command("classify", "demur.cli.classify", "say class and output for a verdict and its codes"),
    Command("codes list", "demur.cli.codes_list", "list reason codes"),
    Command("codes explain", "demur.cli.codes_explain", "explain one reason code"),
    Command("codes lint", "demur.cli.codes_lint", "find misused codes in sources and policies"),
    Command("codes diff", "demur.cli.codes_diff", "say whether a registry may follow another"),
    Command("codes export", "demur.cli.codes_export", "write the registry in another form"),
    Command("codes new", "demur.cli.codes_new", "add a code to a registry file"),
    Command("policy validate", "demur.cli.policy_validate", "say whether policies can be used"),
    Command("policy lint", "demur.cli.policy_lint", "find what is probably not meant in policies"),
    Command("policy test", "demur.cli.policy_test", "hold a policy to tables of cases"),
    Command("policy show", "demur.cli.policy_show", "show a policy in plain words"),
    Command("policy import", "demur.cli.policy_import", "read a Lumyn policy into this form"),
    Command("grant keygen", "demur.cli.grant_keygen", "make a key that can sign grants"),
    Command("grant create", "demur.cli.grant_create", "sign a grant"),
    Command("grant verify", "demur.cli.grant_verify", "check a grant offline"),
    Command("grant revoke", "demur.cli.grant_revoke", "add a grant to a revocation list"),
    Command(
        "hook claude-code",
        "demur.cli.hook_claude_code",
        "judge an event of Claude Code, as the command of its hooks",
    ),
    Command(
        "hook install",
        "demur.cli.hook_install",
        "put demur into a host's settings, after showing what changes",
    ),
    Command("mcp proxy", "demur.cli.mcp_proxy", "guard an MCP server without changing it"),
    Command("mcp pin", "demur.cli.mcp_pin", "agree to the tools of an MCP server as they are now"),
)
GROUPS = {
    "alerts": "what is worth waking up for",
    "audit": "what was decided, provably",
    "codes": "the registry of reason codes",
    "eval": "missed harm and false refusals, measured",
    "guard": "what guards see on each surface",
    "hook": "hosts that ask before they act",
    "keys": "keys of the service",
    "lint": "words that people read",
    "mcp": "MCP servers, guarded as they are",
    "policy": "rules that decide",
    "grant": "signed authority that lifts workflow blocks",
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
            module = _load(command.module)
            module.configure(child)
            child.set_defaults(run=module.run)
    return parser


def _load(place: str) -> CommandModule:
    """Return the module at a place, or an object in one: `module:NAME`."""
    name, _, part = place.partition(":")
    module = import_module(name)
    return cast("CommandModule", getattr(module, part) if part else module)
