"""Decide whether an answer can be guarded while it is written or must be held until its end."""

from math import inf

from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.ruling import finding_blocks
from demur.gate.gate import Gate
from demur.gate.pipeline import GuardStep, GuardPipeline
from demur.guards.builtin import find_builtin
from demur.guards.events import read_config
from demur.guards.output.stream_flow import OnBlock, StreamConfig
from demur.guards.text_rules.rules import builtin_rules
from demur.model.finding import Action
from demur.policy.policy import Mode

__all__ = ["stream_config_for", "max_answer_length"]


def stream_config_for(
    pipeline: GuardPipeline, gate: Gate | None, registry: Registry
) -> StreamConfig | None:
    """Return how to guard an answer while it is written, or None if it must be held."""
    if gate is not None and not _gate_follows_findings(gate):
        return None
    steps = _output_steps(pipeline)
    if len(steps) != 1:
        return None
    [step] = steps
    if step.shadow or step.timeout_s is not None or not _is_builtin(step):
        return None
    config = read_config(Surface.OUTPUT, step.config)
    rules = builtin_rules(Surface.OUTPUT) if config.rules is None else config.rules
    warnings = [rule for rule in rules.rules if rule.action is Action.WARN]
    if any(finding_blocks(rule.code, rule.action, registry) for rule in warnings):
        return None
    return StreamConfig(output=config, on_block=OnBlock.END)


def max_answer_length(pipeline: GuardPipeline, gate: Gate | None) -> float:
    """Return the length above which a guard refuses an answer; infinite if none does."""
    if gate is not None and gate.mode is not Mode.ENFORCE:
        return inf
    lengths = (
        float(read_config(Surface.OUTPUT, step.config).longest)
        for step in _output_steps(pipeline)
        if _is_builtin(step) and step.on_failure == "closed" and not step.shadow
    )
    return min(lengths, default=inf)


def _output_steps(pipeline: GuardPipeline) -> list[GuardStep]:
    return [one for one in pipeline.steps if one.guard.SURFACE == Surface.OUTPUT]


def _is_builtin(step: GuardStep) -> bool:
    return getattr(step.guard, "__name__", "") == find_builtin(Surface.OUTPUT).module


def _gate_follows_findings(gate: Gate) -> bool:
    """Return whether the gate refuses exactly what findings alone would refuse."""
    policy = gate.policy
    reads = any(rule.reads_findings for rule in policy.rules)
    return gate.mode is Mode.ENFORCE and not policy.shadows and not reads
