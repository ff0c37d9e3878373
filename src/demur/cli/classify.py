"""`demur classify`: class, output and advice for a verdict and its codes."""

import argparse

import msgspec

from demur.classification.conclude import make_decision
from demur.cli.terminal import Paint, class_colour, wrap_text
from demur.codes.default import default_registry
from demur.codes.vocabulary import DecisionOutput, Verdict
from demur.model.decision import Decision

__all__ = ["configure_classify", "exit_status", "run_classify"]

_OUTPUT_STATUS = {
    DecisionOutput.ALLOW_EXECUTE: 0,
    DecisionOutput.REFUSE_WITH_PATH: 3,
    DecisionOutput.NEED_CONTEXT: 4,
    DecisionOutput.ALLOW_CONSTRAINED: 5,
}
COULD_NOT_JUDGE = 6


def exit_status(decision: Decision) -> int:
    """Return the exit status of a decision."""
    if decision.verdict is Verdict.ABSTAIN:
        return COULD_NOT_JUDGE
    return _OUTPUT_STATUS[decision.decision_output]


def configure_classify(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "verdict", choices=[str(verdict) for verdict in Verdict], help="the verdict of the engine"
    )
    parser.add_argument("codes", nargs="*", metavar="CODE", help="the unresolved reason codes")
    parser.add_argument(
        "--constraint", action="append", default=[], help="a constraint to offer or attach"
    )
    parser.add_argument(
        "--missing", action="append", default=[], help="something that the caller must supply"
    )
    parser.add_argument("--last-attempt", action="store_true", help="no attempts are left")
    parser.add_argument("--json", action="store_true", help="the decision as JSON")


def run_classify(args: argparse.Namespace) -> int:
    """Print the decision and return its status."""
    decision = make_decision(
        args.verdict,
        args.codes,
        constraints=args.constraint,
        missing=args.missing,
        attempts_left=not args.last_attempt,
        registry=default_registry(),
    )
    print(
        msgspec.json.encode(decision).decode()
        if args.json
        else describe_decision(decision, Paint())
    )
    return exit_status(decision)


def describe_decision(decision: Decision, paint: Paint) -> str:
    """Return the decision as a few lines of text."""
    colour = class_colour(decision.refusal_class)
    judged = "ABSTAIN: could not judge" if decision.verdict is Verdict.ABSTAIN else decision.verdict
    output = paint(decision.decision_output, "bold", colour)
    lines = [f"{output} ({judged}, {decision.refusal_class or 'nothing refuses'})"]
    for label, text in (
        ("why", decision.reason),
        ("now", decision.what_can_be_done_now),
        ("then", decision.how_to_proceed),
        ("next", decision.next_step),
        ("must", ", ".join(decision.obligations)),
    ):
        if text:
            body = wrap_text(text, " " * 7).lstrip()
            lines.append(f"  {paint(label.ljust(4), 'dim')} {body}")
    return "\n".join(lines)
