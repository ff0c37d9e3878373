"""Reason codes over HTTP: the registry, and refusal lines read and written."""

import re
from typing import Any

import msgspec

from demur.codes.entry import Entry
from demur.codes.refusal_line import (
    REFUSAL_PREFIX,
    find_refusals,
    format_refusal,
    parse_refusal,
)
from demur.codes.registry import Registry
from demur.errors import UnknownCodeError
from demur.service.authentication import Role
from demur.service.calls import (
    MAX_INLINE_BYTES,
    ApiAnswer,
    ApiCall,
    RouteTable,
    json_answer,
)
from demur.service.heavy_work import WorkContext
from demur.service.json_body import decode_json, encode_json
from demur.service.problem import ProblemError, invalid_call
from demur.source.item import closest_name

_CODE = {"type": "object", "required": ["code", "title", "description"]}
_FIELDS = (
    "code",
    "title",
    "description",
    "effect",
    "refusal_class",
    "severity",
    "advice",
    "retry_scope",
    "decided",
    "parent",
    "surfaces",
    "stability",
    "replacement",
)
# No JSON text in UTF-8 can hold these.
_SURROGATES = re.compile("[\\ud800-\\udfff]")
_MAX_SUGGESTED = 3
CODE_ROUTES = RouteTable()


@CODE_ROUTES.add(
    "GET /v1/codes",
    "list codes",
    Role.READ,
    gives={
        "type": "object",
        "required": ["registry", "codes"],
        "properties": {
            "registry": {"type": "string"},
            "codes": {"type": "array", "items": _CODE},
        },
    },
)
async def list_codes(call: ApiCall) -> ApiAnswer:
    """List all reason codes in force."""
    registry = call.service.gate.registry
    codes = [_entry_view(entry) for entry in registry]
    return json_answer({"registry": registry.label, "codes": codes})


@CODE_ROUTES.add("GET /v1/codes/{code:path}", "get code", Role.READ, gives=_CODE, statuses=(404,))
async def get_code(call: ApiCall) -> ApiAnswer:
    """Return one reason code."""
    entry = call.service.gate.registry.get(call.path["code"])
    if entry is None:
        raise _unknown_code(call.path["code"], call.service.gate.registry)
    return json_answer(_entry_view(entry))


def _unknown_code(code: str, registry: Registry) -> ProblemError:
    """Return the error for an unknown code, with the codes that may be meant."""
    part = code.upper()
    alike = [entry.code for entry in registry if part and part in entry.code.split("_")]
    near = closest_name(part, (entry.code for entry in registry))
    meant = list(dict.fromkeys([*([near] if near else []), *alike]))[:_MAX_SUGGESTED]
    hint = f"did you mean {', '.join(f'`{one}`' for one in meant)}?" if meant else None
    return invalid_call(404, "there is no such code", "code", hint or "`GET /v1/codes` lists them")


def _entry_view(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _FIELDS}


class ParseInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text: one refusal, an answer, or lines of a log."""

    text: str


class ParsedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal in a text: code and detail, and its place as characters from `start` to `end`.

    `legacy` says that a phrase named the code. Lone surrogates of a detail stay escaped.
    """

    code: str
    detail: str
    start: int
    end: int
    legacy: bool


class ParsedText(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal that the text is as a whole, or null, and those in its lines."""

    refusal: ParsedLine | None
    found: tuple[ParsedLine, ...]


@CODE_ROUTES.add(
    "POST /v1/parse",
    "parse",
    Role.DECIDE,
    takes=ParseInput,
    gives=ParsedText,
    example={"text": "12:00 WARN shell - REFUSED: RCE_RISK: curl x | sh"},
)
async def parse_text(call: ApiCall) -> ApiAnswer:
    """Read the refusals in a text: refusal lines and legacy phrases."""
    run = call.run_heavy if len(call.body) > MAX_INLINE_BYTES else call.run_blocking
    return ApiAnswer(await run(call.service.heavy_pool.call, parse_raw, call.body))


def parse_raw(context: WorkContext, raw: bytes) -> bytes:
    """Read the refusals in the text of a body, and return the answer's content."""
    text, registry = decode_json(raw, ParseInput).text, context.registry
    found = tuple(
        ParsedLine(
            code=str(one.code),
            detail=_escape_surrogates(one.detail),
            start=one.start,
            end=one.end,
            legacy=one.legacy,
        )
        for one in find_refusals(text, registry=registry)
    )
    whole = parse_refusal(text, registry=registry)
    refusal = whole and ParsedLine(
        code=str(whole.code),
        detail=_escape_surrogates(whole.detail),
        start=0,
        end=len(text),
        legacy=not text.startswith(REFUSAL_PREFIX),
    )
    return encode_json(ParsedText(refusal=refusal, found=found))


class FormatInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered code, and the detail of this refusal."""

    code: str
    detail: str = ""


class RefusalLine(msgspec.Struct, frozen=True, kw_only=True):
    """The refusal line, ready to be logged or returned."""

    line: str


@CODE_ROUTES.add_sync(
    "POST /v1/format",
    "format",
    Role.DECIDE,
    takes=FormatInput,
    gives=RefusalLine,
    example={"code": "RCE_RISK", "detail": "curl x | sh"},
)
def format_line(call: ApiCall) -> RefusalLine:
    """Write a refusal line."""
    body = call.decode_body(FormatInput)
    try:
        line = format_refusal(body.code, body.detail, registry=call.service.gate.registry)
    except UnknownCodeError as error:
        raise invalid_call(422, error.problem, "code", error.help) from error
    return RefusalLine(line=line)


def _escape_surrogates(text: str) -> str:
    return _SURROGATES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
