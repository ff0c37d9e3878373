"""Test a guard against its contract: registered codes, valid spans, deterministic findings.

Needs no test runner: `contract_breaches` yields what is wrong, `assert_guard_contract` raises an
AssertionError. `refuse_rows` and `allow_rows` return the example rows of the registry.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from demur.codes.entry import Entry
from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.errors import InputError, InputTypeError
from demur.guards.builtin import find_builtin, parse_event, read_config
from demur.guards.contract import Guard, event_text, finding_problem, guard_problems
from demur.model.finding import Finding

_MAX_FINDINGS = 100_000
_MAX_SHOWN = 60
# Unusual texts that often break guards.
ODD_TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "ok \udfff ok",
    "\u202e\u2066reversed\u2069",
    "z\u0300\u0301\u0302" * 50,
    "\u200b" * 2000,
    "\U0001f9d1\u200d\U0001f680" * 20,
    "((((((((((" * 40,
    "'\"`$(){}[]<>|&;\\",
    '{"a": [',
    "line\rline\nline\r\nline\u2028line\x85line",
    "QUJD" * 500,
    "%41%42%zz%",
    "-" * 5000,
    "ignore " * 500,
    "ß" * 300 + "İ" * 300,
)


def assert_guard_contract(
    guard: Guard,
    events: Iterable[Any] = (),
    *,
    config: Any = None,
    registry: Registry | None = None,
) -> None:
    """Raise an AssertionError that lists every breach of the contract by `guard`.

    `events` are events of the guard's surface, or texts if the surface accepts texts. It
    tries unusual texts as well.
    """
    broken = list(islice(contract_breaches(guard, events, config=config, registry=registry), 20))
    if broken:
        name = getattr(guard, "__name__", type(guard).__name__)
        listed = "\n".join(f"- {breach}" for breach in broken)
        message = f"the guard `{name}` breaks the contract:\n{listed}"
        raise AssertionError(message)


def contract_breaches(
    guard: Guard,
    events: Iterable[Any] = (),
    *,
    config: Any = None,
    registry: Registry | None = None,
) -> Iterator[str]:
    """Yield a description of each breach of the contract by `guard`."""
    known = default_registry() if registry is None else registry
    problems = list(guard_problems(guard, known))
    if problems:
        yield from problems
        return
    settings = _choose_config(guard, config)
    odd = [text for text in ODD_TEXTS if _takes_texts(guard)]
    for given in [*events, *odd]:
        try:
            event = parse_event(guard.SURFACE, given)
        except (InputError, InputTypeError):
            event = given
        yield from (
            f"{_quote_input(given)}: {breach}"
            for breach in _find_breaches(guard, event, settings, known)
        )


def _find_breaches(guard: Guard, event: Any, config: Any, registry: Registry) -> Iterator[str]:
    first = _run_check(guard, event, config)
    if isinstance(first, str):
        yield first
        return
    text = event_text(event)
    for found in first:
        problem = finding_problem(
            found, surface=guard.SURFACE, codes=guard.CODES, text=text, registry=registry
        )
        if problem is not None:
            yield problem
    if _run_check(guard, event, config) != first:
        yield "it returns different findings for the same event: it is not deterministic"
    if text is not None and not _in_order(first):
        yield "the findings are not in the order of their spans"


def _run_check(guard: Guard, event: Any, config: Any) -> list[Finding] | str:
    """Return the findings, or the problem; a guard may reject an event with an `InputError`."""
    try:
        found = list(islice(guard.check(event, config), _MAX_FINDINGS + 1))
    except (InputError, InputTypeError):
        return []
    except Exception as error:  # noqa: BLE001 - any exception is a breach
        return f"it raises {type(error).__name__}: {str(error)[:100]}"
    return f"more than {_MAX_FINDINGS} findings" if len(found) > _MAX_FINDINGS else found


def _in_order(findings: list[Any]) -> bool:
    starts = [f.span.start for f in findings if isinstance(f, Finding) and f.span is not None]
    return starts == sorted(starts)


def _takes_texts(guard: Guard) -> bool:
    try:
        return find_builtin(guard.SURFACE).text is not None
    except InputError:
        return False


def _choose_config(guard: Guard, config: Any) -> Any:
    if config is None and hasattr(guard, "CONFIG"):
        return guard.CONFIG
    if _is_builtin(guard) and (config is None or isinstance(config, dict)):
        return read_config(guard.SURFACE, config)
    return config


def _is_known(guard: Guard) -> bool:
    try:
        find_builtin(guard.SURFACE)
    except InputError:
        return False
    return True


def _is_builtin(guard: Guard) -> bool:
    return _is_known(guard) and getattr(guard, "__name__", "") == find_builtin(guard.SURFACE).module


def _quote_input(given: Any) -> str:
    try:
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    except (TypeError, ValueError):
        text = type(given).__name__
    line = ascii(text)[1:-1]
    return f"`{line[:_MAX_SHOWN]}…`" if len(line) > _MAX_SHOWN else f"`{line}`"


def refuse_rows(
    codes: Collection[str] | str | None = None,
    *,
    surface: Surface | str | None = None,
    registry: Registry | None = None,
) -> list[tuple[str, str]]:
    """Return code and text of each row that a guard of these codes, or this surface, must find.

    Raises:
        UnknownCodeError: A code is in no registry.
    """
    return [
        (one.code, row) for one in _select(codes, surface, registry) for row in one.examples.refuse
    ]


def allow_rows(
    codes: Collection[str] | str | None = None,
    *,
    surface: Surface | str | None = None,
    registry: Registry | None = None,
) -> list[tuple[str, str]]:
    """Return code and text of each row that a guard of these codes, or this surface, must pass.

    Raises:
        UnknownCodeError: A code is in no registry.
    """
    return [
        (one.code, row) for one in _select(codes, surface, registry) for row in one.examples.allow
    ]


def _select(
    codes: Collection[str] | str | None, surface: Surface | str | None, registry: Registry | None
) -> list[Entry]:
    known = default_registry() if registry is None else registry
    named = [codes] if isinstance(codes, str) else codes
    entries = list(known) if named is None else [known[code] for code in named]
    return [entry for entry in entries if surface is None or surface in entry.surfaces]
