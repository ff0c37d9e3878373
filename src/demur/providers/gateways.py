"""AI gateways: Cloudflare's error codes, and Portkey's own HTTP statuses and hooks."""

from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    Interpretation,
    Signal,
    SignalOutcome,
    load_system,
    strongest_signal,
)

__all__ = ["NAME", "read"]

NAME = "gateways"


def read(shape: ResponseShape) -> Signal | None:
    """Return the signal of a gateway in front of the model."""
    return strongest_signal([*_read_cloudflare(shape.body), _read_portkey(shape)])


def _read_cloudflare(body: Node) -> Iterator[Signal]:
    for error in (*body["errors"], *body["error"], body["error"]):
        code = error["code"]
        word = code.text or (f"{code.number:.0f}" if code.number is not None else None)
        judged = load_system(NAME).interpret("cloudflare_code", word)
        if judged.known:
            yield judged.to_signal(code, detail=error["message"].text or "")


def _read_portkey(shape: ResponseShape) -> Signal | None:
    known = load_system(NAME)
    judged = known.interpret("portkey_status", None if shape.status is None else str(shape.status))
    hooks = shape.body["hook_results"]
    if not hooks.present:
        hooks = shape.body["error"]["hook_results"]
    failed = list(_failed_checks(hooks))
    if not judged.known:
        return None
    for side, check in failed:
        exact = known.interpret("portkey_check", check["id"].text)
        narrow = exact if exact.known and judged.outcome is SignalOutcome.REFUSAL else judged
        return _check_signal(narrow._replace(outcome=judged.outcome), side, check)
    return judged.to_signal(hooks, path="HTTP status", native=shape.status)


def _failed_checks(hooks: Node) -> Iterator[tuple[str, Node]]:
    """Yield each failed check, with its side."""
    for side, name in (("input", "before_request_hooks"), ("output", "after_request_hooks")):
        for hook in hooks[name]:
            for check in hook["checks"]:
                if check["verdict"].raw is False:
                    yield side, check


def _check_signal(judged: Interpretation, side: str, check: Node) -> Signal:
    evidence = {"check": check["id"].text, "stage": side}
    return judged.to_signal(check["id"], surface=side, evidence=evidence)
