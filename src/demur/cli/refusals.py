"""`demur format`, `demur parse` and `demur classify`: refusal lines and verdicts, for scripts."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demur.classification import make_decision, missing_grants
from demur.cli.main import Arguments
from demur.cli.options import STANDARD_INPUT, hint_terminal, require_code
from demur.cli.terminal import Paint, paint_outcome, wrap_text
from demur.codes.loading import default_registry
from demur.codes.refusal_line import FoundRefusal, find_refusals, format_refusal
from demur.codes.registry import Registry
from demur.codes.vocabulary import Verdict
from demur.model.decision import Decision, Outcome
from demur.model.record import DecisionRecord
from demur.model.refusal import Refusal, offered_advice


def configure_format(add: Arguments) -> None:
    """Add the command's arguments."""
    add("code CODE", "a registered reason code")
    add("detail [DETAIL]", "the detail; `-` reads it from standard input", default="")
    add("--json", "the whole refusal as JSON")


def run_format(args: Namespace) -> int:
    """Print the line."""
    detail = args.detail
    if detail == STANDARD_INPUT:
        hint_terminal("the detail")
        # Bytes that are not UTF-8 become lone surrogates, as they do in arguments.
        detail = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").rstrip("\r\n")
    registry = default_registry()
    code = require_code(args.code, registry)
    if args.json:
        refusal = Refusal.from_code(code, detail, registry=registry)
        print(msgspec.json.encode(refusal).decode())
    else:
        print(format_refusal(code, detail, registry=registry))
    return 0


REFUSED = 3


def configure_parse(add: Arguments) -> None:
    """Add the command's arguments."""
    add("files [FILE...]", "the files to read; default, or `-`: standard input")
    add("--text TEXT", "read this text instead")
    add("--json", "one JSON object per refusal")
    add("--check", f"exit with {REFUSED} if there is any refusal")


def run_parse(args: Namespace) -> int:
    """Print each refusal as its canonical line, or as JSON."""
    registry = default_registry()
    any_found = False
    for line in _read_lines(args.files) if args.text is None else [args.text]:
        for refusal in find_refusals(line, registry=registry):
            any_found = True
            print(
                _refusal_to_json(refusal, registry)
                if args.json
                else format_refusal(refusal.code, refusal.detail, registry=registry)
            )
    return REFUSED if args.check and any_found else 0


def _read_lines(files: list[str]) -> Iterator[str]:
    for name in files or [STANDARD_INPUT]:
        if name == STANDARD_INPUT:
            hint_terminal("lines")
        with sys.stdin.buffer if name == STANDARD_INPUT else Path(name).open("rb") as stream:
            # Logs are not always UTF-8; undecodable bytes become lone surrogates.
            for raw in stream:
                yield raw.decode("utf-8", "surrogateescape")


def _refusal_to_json(refusal: FoundRefusal, registry: Registry) -> str:
    entry = registry[refusal.code]
    return json.dumps(
        {
            "code": entry.code,
            "detail": refusal.detail,
            "refusal_class": entry.refusal_class,
            "advice": offered_advice(entry.advice, {}),
            "decided": entry.decided,
            "legacy": refusal.legacy,
        }
    )


COULD_NOT_JUDGE = 6
_OUTCOME_STATUS = {
    Outcome.ALLOWED: 0,
    Outcome.REFUSED: 3,
    Outcome.NEEDS_SOMETHING: 4,
    Outcome.ALLOWED_WITH_LIMITS: 5,
    Outcome.COULD_NOT_JUDGE: COULD_NOT_JUDGE,
}


def exit_status(decision: Decision) -> int:
    """Return the exit status of a decision."""
    return _OUTCOME_STATUS[decision.outcome]


def configure_classify(add: Arguments) -> None:
    """Add the command's arguments."""
    add("verdict", "the verdict of the engine", choices=[str(verdict) for verdict in Verdict])
    add("codes [CODE...]", "the unresolved reason codes")
    add("--constraint CONSTRAINT ...", "a constraint to offer or attach")
    add("--missing MISSING ...", "something that the caller must supply")
    add("--last-attempt", "no attempts are left")
    add("--json", "the decision as JSON")


def run_classify(args: Namespace) -> int:
    """Print the decision and return its status."""
    registry = default_registry()
    codes = [require_code(code, registry) for code in args.codes]
    missing = args.missing or missing_grants(
        args.verdict, codes, args.constraint, registry=registry
    )
    decision = make_decision(
        args.verdict,
        codes,
        constraints=args.constraint,
        missing=missing,
        attempts_left=not args.last_attempt,
        registry=registry,
    )
    print(
        msgspec.json.encode({"outcome": decision.outcome, **msgspec.to_builtins(decision)}).decode()
        if args.json
        else describe_decision(decision, Paint())
    )
    return exit_status(decision)


def describe_words(decision: Decision | DecisionRecord) -> str:
    """Return verdict, output and class of a decision: the words of the specification."""
    words = f"verdict {decision.verdict}, output {decision.decision_output}"
    return f"{words}, class {decision.refusal_class}" if decision.refusal_class else words


def outcome_lines(decision: Decision | DecisionRecord, paint: Paint) -> list[str]:
    """Return the outcome and its sentence, which lead every description of a decision."""
    return [paint_outcome(decision.outcome, paint), wrap_text(decision.outcome_sentence, "  ")]


def describe_decision(decision: Decision | DecisionRecord, paint: Paint) -> str:
    """Return the decision as a few lines of text: its outcome, and the details below it."""
    lines = outcome_lines(decision, paint)
    for label, text in (
        ("why", decision.reason),
        ("now", decision.what_can_be_done_now),
        ("then", decision.how_to_proceed),
        ("next", decision.next_step),
        ("must", ", ".join(decision.obligations)),
        ("data", describe_words(decision)),
    ):
        if text:
            body = wrap_text(text, " " * 7).lstrip()
            lines.append(f"  {paint(label.ljust(4), 'dim')} {body}")
    return "\n".join(lines)
