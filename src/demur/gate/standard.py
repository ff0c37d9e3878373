"""The standard pipeline: built-in and installed guards of some surfaces."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.gate.activation import Monitor
from demur.gate.limiter import Limiter
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.gate.rate_guard import RateGuard
from demur.guards.builtin import load_builtin
from demur.guards.installed import installed_guards
from demur.guards.rate.limits import RateLimit

__all__ = ["standard_pipeline"]

# Guards from other packages may wait for a network, so they get a timeout.
_PATIENCE_S = 2.0
_AROUND_A_MODEL = (Surface.INPUT, Surface.OUTPUT)


def standard_pipeline(
    *surfaces: Surface | str,
    limits: Sequence[RateLimit] = (),
    limiter: Limiter | None = None,
    monitor: Monitor | None = None,
    timeout_s: float | None = _PATIENCE_S,
    shadow: Collection[str] = (),
    **more: Any,
) -> GuardPipeline:
    """Return a pipeline of the guards of `surfaces`; by default those of input and output.

    `limits` add a rate guard. `shadow` names surfaces whose guards are recorded and do not bind.
    `timeout_s` applies to guards of other packages: the built-in guards take linear time.

    Raises:
        InputError: There is no such surface.
        GuardError: An installed guard cannot be used.
    """
    if Surface.RATE in surfaces:
        raise InputError("a rate needs limits", where="rate", help="pass `limits=[RateLimit(...)]`")
    for name in shadow:
        if name not in (*surfaces, *_AROUND_A_MODEL, Surface.RATE):
            raise InputError(f"there is no guard of `{name}` to shadow", where="shadow")
    steps = [
        step
        for surface in surfaces or _AROUND_A_MODEL
        for step in _surface_steps(surface, timeout_s, shadowed=surface in shadow)
    ]
    if limits:
        guard = RateGuard(*limits, limiter=limiter)
        steps.append(GuardStep(guard, shadow=Surface.RATE in shadow, name="rate"))
    return GuardPipeline(steps, monitor=monitor, **more)


def _surface_steps(
    surface: Surface | str, timeout_s: float | None, *, shadowed: bool
) -> Iterator[GuardStep]:
    yield GuardStep(load_builtin(surface), shadow=shadowed)
    for other in installed_guards(surface):
        assert other.guard is not None
        yield GuardStep(other.guard, other.config, timeout_s, shadow=shadowed, name=other.name)
