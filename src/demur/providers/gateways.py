"""AI gateways: Cloudflare's error codes, and Portkey's own HTTP statuses and hooks."""

from collections.abc import Iterator

from demur.providers.mapping import Judged, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal, strongest

__all__ = ["NAME", "read"]

NAME = "gateways"


def read(shape: Shape) -> Signal | None:
    """Return the signal of a gateway in front of the model."""
    return strongest([*_cloudflare(shape.body), _portkey(shape)])


def _cloudflare(body: Node) -> Iterator[Signal]:
    for error in (*body["errors"], *body["error"], body["error"]):
        code = error["code"]
        word = code.text or (f"{code.number:.0f}" if code.number is not None else None)
        judged = system(NAME).judge("cloudflare_code", word)
        if judged.known:
            yield judged.signal(code, detail=error["message"].text or "")


def _portkey(shape: Shape) -> Signal | None:
    known = system(NAME)
    judged = known.judge("portkey_status", None if shape.status is None else str(shape.status))
    hooks = shape.body["hook_results"]
    if not hooks.present:
        hooks = shape.body["error"]["hook_results"]
    failed = list(_failed(hooks))
    if not judged.known:
        return None
    for side, check in failed:
        exact = known.judge("portkey_check", check["id"].text)
        narrow = exact if exact.known and judged.outcome is Outcome.REFUSAL else judged
        return _checked(narrow._replace(outcome=judged.outcome), side, check)
    return judged.signal(hooks, path="HTTP status", native=shape.status)


def _failed(hooks: Node) -> Iterator[tuple[str, Node]]:
    """Yield each failed check, with its side."""
    for side, name in (("input", "before_request_hooks"), ("output", "after_request_hooks")):
        for hook in hooks[name]:
            for check in hook["checks"]:
                if check["verdict"].raw is False:
                    yield side, check


def _checked(judged: Judged, side: str, check: Node) -> Signal:
    evidence = {"check": check["id"].text, "stage": side}
    return judged.signal(check["id"], surface=side, evidence=evidence)
