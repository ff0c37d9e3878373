"""Read LLM Guard: text, verdicts and scores of its scanners, or its server's answer.

LLM Guard keys verdicts by class. Of two scanners of one class only the last verdict
remains, so a refusal of the first may be lost.
"""

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Signal, load_system, strongest_signal
from demur.providers.upstream import match_exception

__all__ = ["NAME", "read"]

NAME = "llm_guard"


def read(shape: ResponseShape) -> Signal | None:
    """Return the refusal in the result of a scan, or None."""
    error = match_exception(NAME, shape)
    if error is not None:
        return error.to_signal()
    return _read_scan(shape.own) or _read_server_answer(shape.own)


def _read_scan(own: Node) -> Signal | None:
    parts = [*own]
    if not isinstance(own.raw, tuple | list) or len(parts) != 3 or parts[0].text is None:
        return None
    _, verdicts, scores = parts
    judged = dict(verdicts.fields())
    if not judged or any(not isinstance(verdict.raw, bool) for verdict in judged.values()):
        return None
    failed = ((name, verdict) for name, verdict in judged.items() if verdict.raw is False)
    return strongest_signal(
        _scanner_signal(name, verdict, scores[name]) for name, verdict in failed
    )


def _read_server_answer(own: Node) -> Signal | None:
    """Return the refusal in the server's answer, which has scores only, or None."""
    if own["is_valid"].raw is not False or not own["scanners"]:
        return None
    scored = ((name, score) for name, score in own["scanners"].fields() if (score.number or 0) > 0)
    found = strongest_signal(_scanner_signal(name, score, score) for name, score in scored)
    return found or load_system(NAME).interpret("is_valid", "false").to_signal(own["is_valid"])


def _scanner_signal(name: str, verdict: Node, score: Node) -> Signal:
    judged = load_system(NAME).interpret("scanner", name)
    evidence = {"scanner": name, "score": score.number}
    return judged.to_signal(verdict, native={name: verdict.raw}, evidence=evidence)
