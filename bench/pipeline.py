"""Measure what the pipeline adds to a guard, and what a rate limit costs.

Prints microseconds per call, the best of several rounds, beside the bare guard of the same run.
"""

import sys
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from demur.codes.vocabulary import Surface
from demur.enforce.generation import safe_generate
from demur.gate import GuardPipeline, GuardrailMonitor, GuardStep, RateGuard
from demur.guards import RateLimit
from demur.guards import input as inputs
from demur.guards.input import InputConfig, InputText
from demur.model.finding import Finding

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

PROMPT = "Please summarise the attached meeting notes in five bullet points. " * 30
EVENT, CONFIG = InputText(PROMPT), InputConfig()


def nothing(_event: Any, _config: Any) -> Iterator[Finding]:
    """Yield nothing: what is measured is the pipeline."""
    return iter(())


def measure(call: Callable[[], object], times: int) -> float:
    """Return microseconds per call, the best of seven rounds."""
    return min(timeit.repeat(call, number=times, repeat=7)) / times * 1e6


def guard_costs() -> None:
    """Print a guard alone, in a pipeline, watched, and with a timeout."""
    bare: Any = SimpleNamespace(SURFACE=Surface.MODEL, CODES=("RCE_RISK",), check=nothing)
    plain = GuardPipeline([GuardStep(bare)])
    watched = GuardPipeline([GuardStep(bare)], monitor=GuardrailMonitor())
    timed = GuardPipeline([GuardStep(bare, timeout_s=5)])
    print("a guard that sees nothing, microseconds:")
    print(f"  bare               {measure(lambda: list(bare.check(None, None)), 20_000):8.2f}")
    print(f"  in a pipeline      {measure(lambda: plain.run('model', None), 20_000):8.2f}")
    print(f"  watched            {measure(lambda: watched.run('model', None), 20_000):8.2f}")
    print(f"  with a timeout     {measure(lambda: timed.run('model', None), 2_000):8.2f}")
    whole = GuardPipeline([GuardStep(inputs)])
    print(f"the input guard on {len(PROMPT)} characters, microseconds:")
    print(f"  bare               {measure(lambda: list(inputs.check(EVENT, CONFIG)), 2_000):8.2f}")
    print(f"  in a pipeline      {measure(lambda: whole.run('input', PROMPT), 2_000):8.2f}")
    print(f"  safe_generate      {measure(lambda: safe_generate(PROMPT, str.lower), 500):8.2f}")


def rate_costs() -> None:
    """Print a use that is counted here, and one that is counted in Redis."""
    limit = RateLimit(count=10**9, per_s=1)
    here = RateGuard(limit)
    print("a use of a rate limit, microseconds:")
    print(f"  in this process    {measure(lambda: list(here.check('mary')), 20_000):8.2f}")
    from support.redis_server import RedisServer  # noqa: PLC0415 - needs the path above

    from demur.gate.rate import RedisLimiter  # noqa: PLC0415 - an optional dependency

    server = RedisServer()
    try:
        limiter = RedisLimiter.from_url(server.url)
        there = RateGuard(limit, limiter=limiter)
        print(f"  in Redis           {measure(lambda: list(there.check('mary')), 2_000):8.2f}")
        limiter.close()
    finally:
        server.close()


if __name__ == "__main__":
    guard_costs()
    rate_costs()
