"""`demur normalize`, `demur emit` and `demur respond`: refusals in the forms that others read."""

import json
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from demur.cli.main import Arguments, UsageError
from demur.cli.options import (
    STANDARD_INPUT,
    add_registry_option,
    hint_terminal,
    match_code,
    parse_pairs,
    parse_time,
    prefix_errors,
    read_input,
    read_requests,
    require_code,
    usage_errors,
)
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.emit.envelope import from_envelope, from_refusal_line
from demur.emit.formats import EMIT_FORMATS, EmitFormat
from demur.emit.hosts import HOOK_EVENTS
from demur.errors import DemurError, InputError, one_line
from demur.gate.clock import IdSource, system_clock
from demur.model.refusal import Refusal
from demur.providers.normalization import has_known_shape, normalize
from demur.respond.case import Audience, ComposeSource, parse_compose_source
from demur.respond.graceful import render, view
from demur.respond.template import FALLBACK_LOCALE
from demur.respond.template_file import load_templates

REFUSED = 3
NOT_JUDGED = 6


def configure_normalize(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "file [FILE]",
        "a response, an error or a recorded stream, as JSON; `-` is standard input",
        default=STANDARD_INPUT,
    )
    add("--lines", "each line is a separate response, not an event")
    add("--status N", "the HTTP status of the response", type=int)
    add_registry_option(add)
    add("--json", "the whole refusal as JSON, one per line")


def run_normalize(args: Namespace) -> int:
    """Print the refusal line of each refusal."""
    registry = default_registry(*args.registry)
    found: list[Refusal] = []
    unknown = 0
    where, raw = read_input(args.file, "the response")
    text = raw.decode("utf-8", "replace")
    if not text.strip():
        raise UsageError("the input holds no response", where=where, help="like {...}, or a stream")
    for body in filter(str.strip, text.splitlines()) if args.lines else [text]:
        response = body if args.status is None else (args.status, body)
        refusal = normalize(response, registry=registry)
        if refusal is None and args.status is None and not has_known_shape(body):
            unknown += 1
        if refusal is not None:
            found.append(refusal)
            fields = msgspec.to_builtins(refusal)
            print(json.dumps(fields, ensure_ascii=False) if args.json else refusal.line)
    if unknown:
        what = f"{unknown} of the lines are" if args.lines else "the input is"
        text = f"{where}: {what} no response, error or stream that demur knows"
        print(f"{one_line(text)}; give the HTTP status with --status", file=sys.stderr)
    if any(refusal.decided for refusal in found):
        return REFUSED
    return NOT_JUDGED if found or unknown else 0


BLOCKED = 2
_HOOK_FORM = "claude-code"
_INPUT_NAME = "standard input"
_FORM_OPTIONS = {
    "event": "hook event to answer",
    "event_id": "id of the event; default: a new id",
    "instance": "URI of this occurrence",
    "request_id": "id of the JSON-RPC request to answer",
    "source": "URI of the enforcing system",
    "subject": "subject of the refusal",
    "time": "time of the refusal; default: now",
    "words": "text for people, before the refusal line",
}


def configure_emit(add: Arguments) -> None:
    """Add the command's arguments."""
    add.epilog(
        "reads refusals from standard input: envelopes (`demur format --json`, one object or one "
        "per line) or refusal lines; `claude-code` prints one object"
    )
    forms = sorted(EMIT_FORMATS)
    add("form FORM", f"one of {', '.join(forms)}", choices=forms)
    for name, text in _FORM_OPTIONS.items():
        choices = HOOK_EVENTS if name == "event" else None
        used = ", ".join(
            f
            for f in forms
            if name in EMIT_FORMATS[f].required_arguments + EMIT_FORMATS[f].optional_arguments
        )
        help_text = f"{text} ({used})" + (f": {', '.join(choices)}" if choices else "")
        add(f"--{name.replace('_', '-')} {name.upper()}", help_text, choices=choices)
    add("--ask", "ask the user at the terminal for approval (claude-code)")
    add("--halt", "also stop the agent (claude-code)")
    add("--json", "one object per line, not indented")
    add_registry_option(add)


def run_emit(args: Namespace) -> int:
    """Print each refusal in the chosen format."""
    if args.form != _HOOK_FORM:
        return _emit_refusals(args)
    # INVARIANT: what a hook cannot write as a refusal blocks all the same.
    try:
        return _emit_refusals(args)
    except Exception as error:  # noqa: BLE001 - any status but 2 lets the action run
        message = str(error) if isinstance(error, DemurError) else type(error).__name__
        print(f"error: the refusal cannot be written: {one_line(message)}", file=sys.stderr)
        return BLOCKED


def _emit_refusals(args: Namespace) -> int:
    form = EMIT_FORMATS[args.form]
    options = {
        name: value
        for name, value in vars(args).items()
        if (name in _FORM_OPTIONS or name in {"ask", "halt"}) and value
    }
    accepted = form.required_arguments + form.optional_arguments
    for option in options:
        if option not in accepted:
            flag = option.replace("_", "-")
            takes = ", ".join(f"--{one.replace('_', '-')}" for one in accepted) or "no options"
            raise UsageError(f"`{args.form}` does not take --{flag}", help=f"it takes {takes}")
    if "source" in form.required_arguments and "source" not in options:
        raise UsageError(f"`{args.form}` needs --source", help="a URI, like /gateway/eu-1")
    new_id = IdSource()
    registry = default_registry(*args.registry)
    refusals = _read_refusals(registry)
    if args.form == _HOOK_FORM:
        # The host reads exactly one object. It ignores output with two, and the action would run.
        refusals = [max(refusals, key=_rank_strictness)]
    written = [
        form.write(refusal, **_form_arguments(form, options, new_id, registry))
        for refusal in refusals
    ]
    for one in written:
        print(json.dumps(one, indent=None if args.json else 2, ensure_ascii=False))
    return 0


def _rank_strictness(refusal: Refusal) -> tuple[bool, int]:
    kind = refusal.refusal_class
    return refusal.decided, 0 if kind is None else kind.strictness


def _form_arguments(
    form: EmitFormat, options: dict[str, Any], new_id: IdSource, registry: Registry
) -> dict[str, Any]:
    """Return the arguments of the form; clock and ids enter here."""
    arguments = dict(options)
    if "time" in form.required_arguments:
        now = system_clock()
        arguments["time"] = parse_time(options["time"], now) if "time" in options else now
    if "registry" in form.optional_arguments:
        arguments["registry"] = registry
    if "event_id" in form.required_arguments:
        arguments.setdefault("event_id", new_id())
    return arguments


def _read_refusals(registry: Registry) -> list[Refusal]:
    hint_terminal("refusals")
    raw = sys.stdin.buffer.read()
    try:
        text = raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8, from byte {error.start} on", where=_INPUT_NAME) from error
    if not text:
        raise InputError("the input holds no refusal", where=_INPUT_NAME, help=_input_help())
    if (whole := _parse_object(text)) is not None:
        return [_parse_envelope(whole, _INPUT_NAME)]
    lines = enumerate(text.split("\n"), 1)
    return [_parse_refusal(line.strip("\r"), at, registry) for at, line in lines if line.strip()]


def _parse_refusal(line: str, number: int, registry: Registry) -> Refusal:
    where = f"{_INPUT_NAME}:{number}"
    if (value := _parse_object(line)) is not None:
        return _parse_envelope(value, where)
    refusal = from_refusal_line(line, registry=registry)
    if refusal is None:
        raise InputError("not a refusal", where=where, help=_input_help())
    return refusal


def _parse_object(text: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _parse_envelope(value: dict[str, Any], where: str) -> Refusal:
    refusal = from_envelope(value)
    if refusal is None:
        raise InputError("not a refusal envelope", where=where, help=_input_help())
    return refusal


def _input_help() -> str:
    return "like `REFUSED: RCE_RISK: curl x | sh`, or what `demur format --json` prints"


def configure_respond(add: Arguments) -> None:
    """Add the command's arguments."""
    add(
        "refused CODE|FILE",
        "a reason code, or a record, decision or refusal as JSON; `-` is standard input",
    )
    add(
        "--locale LOCALE",
        "the language, like `de-AT`, or the nearest available one",
        default=FALLBACK_LOCALE,
    )
    add(
        "--audience",
        "the reader",
        choices=[str(audience) for audience in Audience],
        default=str(Audience.END_USER),
    )
    add("--persona NAME", "the name of the assistant")
    add("--variation KEY", "a number, or a text that always chooses the same wording")
    add("--slot NAME=TEXT ...", "fill a slot of the template; repeatable")
    add("--templates FILE ...", "templates that override the built-in ones; repeatable")
    add("--json", "the fields that the audience may see, as JSON")


def run_respond(args: Namespace) -> int:
    """Print the text."""
    registry = default_registry()
    source = _load_source(args.refused, registry)
    settings = {
        "locale": args.locale,
        "audience": args.audience,
        "persona": args.persona,
        "variation": _parse_variation(args.variation),
        "slots": parse_pairs(args.slot, "--slot", "tool=search"),
        "templates": load_templates(*args.templates, registry=registry),
        "registry": registry,
    }
    with usage_errors("unknown slot"):
        if args.json:
            print(json.dumps(view(source, **settings), indent=2, ensure_ascii=False))
        else:
            print(render(source, **settings))
    return 0


def _parse_variation(key: str | None) -> int | str | None:
    return int(key) if key is not None and key.isdecimal() else key


def _load_source(name: str, registry: Registry) -> ComposeSource:
    code = match_code(name, registry)
    if code is None and name != STANDARD_INPUT and not Path(name).exists():
        code = require_code(name, registry)
    if code is not None:
        return Refusal.from_code(code, registry=registry)
    help_text = "one decision at a time, as `demur show ID --json` prints it"
    found = read_requests(name, "decision", help_text)
    if found.listed or not isinstance(found.requests[0].value, Mapping):
        raise InputError("not a decision", where=name, help=help_text)
    [one] = found.requests
    with prefix_errors(one.where):
        return parse_compose_source(one.value)
