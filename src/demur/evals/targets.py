"""Open a target by its name, as the command line gives it; demur's own guards are one.

A blocked prompt is answered by the words and the line of a refusal. If a guard or a gate could
not judge, the row has an error.
"""

import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from demur.canonical import digest
from demur.codes.loading import default_registry
from demur.codes.vocabulary import Surface, Verdict
from demur.enforce.context import GENERATE_ACTION
from demur.enforce.generation import asafe_generate
from demur.enforce.result import GuardedAnswer
from demur.errors import MissingExtraError
from demur.evals.local_targets import (
    CommandOptions,
    CommandTarget,
    PythonOptions,
    PythonTarget,
    RecordedOptions,
    RecordedTarget,
    find_function,
)
from demur.evals.suite_row import EvalRow
from demur.evals.target import EvalTarget, TargetAnswer, TargetError, error_answer, ms_since
from demur.gate.config import Config, load_config
from demur.gate.gate import Gate
from demur.gate.guard_pipeline import build_pipeline, load_guard_rules
from demur.gate.guard_settings import GuardSettings
from demur.model.refusal import Refusal
from demur.policy.loader import load_policy
from demur.source.item import did_you_mean

# Stands in for a model's answer; no guard blocks it.
_STAND_IN_ANSWER = "Here is what you asked for."


class GuardsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the guards; `behind` names the guarded target, as for `open_target`.

    `config` is a settings file, whose `[guards]` apply; rate limits do not.
    """

    behind: str = ""
    locale: str | None = None
    config: str = ""


class PolicyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a policy: the action type of prompts, and the guarded target, if any.

    `config` is a settings file, whose `[guards]` apply; rate limits do not.
    """

    action_type: str = GENERATE_ACTION
    behind: str = ""
    locale: str | None = None
    config: str = ""


class GuardsTarget:
    """The input and output guards around a target, or alone; `config` holds their settings."""

    def __init__(
        self,
        behind: EvalTarget | None = None,
        *,
        locale: str | None = None,
        config: Config | None = None,
    ) -> None:
        guards = GuardSettings() if config is None else config.guards
        self._behind, self._locale = behind, locale or guards.locale
        self._pipeline, self._digest = None, ""
        if config is not None and guards != GuardSettings():
            registry, unlimited = default_registry(*config.registries), replace(guards, limits=())
            self._pipeline = build_pipeline(
                unlimited, Surface.INPUT, Surface.OUTPUT, registry=registry
            )
            rules = load_guard_rules(unlimited, registry)
            parts = {surface: found.digest for surface, found in rules.items()}
            self._digest = digest([msgspec.to_builtins(unlimited), parts])

    @property
    def name(self) -> str:
        """The name of the guarded target."""
        return "guards" if self._behind is None else f"guards-{self._behind.name}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The guarded target, the locale, and the settings of guards by their digest."""
        behind = None if self._behind is None else dict(self._behind.settings)
        own = {"guards": self._digest} if self._digest else {}
        return {"kind": "guards", "behind": behind, "locale": self._locale, **own}

    async def answer(self, row: EvalRow) -> TargetAnswer:
        """Return the answer that passes the guards, or their refusal."""
        began = time.perf_counter()
        inner = _GuardedTarget(self._behind, row)
        options = {"locale": self._locale, "pipeline": self._pipeline, **self._call_options(row)}
        generated = await asafe_generate(row.prompt, inner.generate, **options)
        if inner.answer is not None and inner.answer.error is not None and not generated.blocked:
            return inner.answer
        return _make_answer(row, generated, inner.answer, ms_since(began))

    async def close(self) -> None:
        """Close the guarded target."""
        if self._behind is not None:
            await self._behind.close()

    def _call_options(self, row: EvalRow) -> Mapping[str, Any]:
        """Return further arguments of the guarded call."""
        del row
        return {}


class PolicyTarget(GuardsTarget):
    """A policy that decides on the guards' findings; the prompt is the action's intent.

    Nothing is stored. The action type determines which rules can match.
    """

    def __init__(
        self,
        path: Path | str,
        behind: EvalTarget | None = None,
        *,
        action_type: str = GENERATE_ACTION,
        locale: str | None = None,
        config: Config | None = None,
    ) -> None:
        super().__init__(behind, locale=locale, config=config)
        self._gate = Gate(load_policy(path))
        self._action_type = action_type

    @property
    def name(self) -> str:
        """The policy's id."""
        return f"policy-{self._gate.policy.policy_id}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The policy by its digest, and the action type."""
        policy = self._gate.policy
        return {
            **super().settings,
            "kind": "policy",
            "policy_id": policy.policy_id,
            "policy_version": policy.policy_version,
            "digest": policy.digest,
            "action_type": self._action_type,
        }

    def _call_options(self, row: EvalRow) -> Mapping[str, Any]:
        action = {"type": self._action_type, "intent": row.prompt}
        return {"gate": self._gate, "request": {"action": action}}


class _GuardedTarget:
    """The guarded target for one row; keeps its answer."""

    def __init__(self, behind: EvalTarget | None, row: EvalRow) -> None:
        self._behind, self._row = behind, row
        self.answer: TargetAnswer | None = None

    async def generate(self, prompt: str) -> str:
        del prompt
        if self._behind is None:
            return _STAND_IN_ANSWER
        self.answer = await self._behind.answer(self._row)
        return self.answer.text


def _was_judged(generated: GuardedAnswer, refusal: Refusal) -> bool:
    record = generated.record
    return refusal.decided and (record is None or record.verdict is not Verdict.ABSTAIN)


def _make_answer(
    row: EvalRow, generated: GuardedAnswer, inner: TargetAnswer | None, ms: float
) -> TargetAnswer:
    if generated.error is not None:
        return error_answer(row.id, "target", generated.error.detail, ms=ms)
    refusal = generated.refusal
    if refusal is not None and not _was_judged(generated, refusal):
        return error_answer(row.id, "target", f"demur could not judge the prompt: {refusal}", ms=ms)
    base = TargetAnswer(row_id=row.id) if inner is None else inner
    if refusal is None:
        warnings = tuple(sorted({str(finding.code) for finding in generated.findings}))
        return replace(base, text=generated.text, ms=ms, warnings=warnings)
    return replace(base, text=f"{generated.text}\n{refusal}", native=None, ms=ms)


TARGET_FORMS = (
    "http://…",
    "python:MODULE:FUNCTION",
    "command:…",
    "recorded:FILE",
    "guards",
    "policy:FILE",
    "demur-testing-server",
)
OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


def open_target(spec: str, **options: Any) -> EvalTarget:
    """Return the target that `spec` names, in one of the `TARGET_FORMS`.

    Options may be strings, as a command line gives them: `retries="2"`.

    Raises:
        TargetError: The target or one of its options is unknown.
        MissingExtraError: The target needs an optional dependency.
    """
    kind, _, rest = spec.partition(":")
    match kind:
        case "http" | "https" | "demur-testing-server":
            return _open_http(spec, options)
        case "python":
            return PythonTarget(find_function(rest), _read(PythonOptions, options), name=rest)
        case "command":
            return CommandTarget(rest, _read(CommandOptions, options))
        case "recorded":
            return RecordedTarget(rest, _read(RecordedOptions, options))
        case "guards":
            guards = _read(GuardsOptions, options)
            return GuardsTarget(**_guard_arguments(guards))
        case "policy":
            policy = _read(PolicyOptions, options)
            return PolicyTarget(rest, action_type=policy.action_type, **_guard_arguments(policy))
    raise TargetError(f"unknown target `{spec}`", help=f"one of {', '.join(TARGET_FORMS)}")


def _guard_arguments(options: GuardsOptions | PolicyOptions) -> dict[str, Any]:
    return {
        "behind": open_target(options.behind) if options.behind else None,
        "locale": options.locale,
        "config": load_config(options.config) if options.config else None,
    }


def _open_http(spec: str, options: Mapping[str, Any]) -> EvalTarget:
    if find_spec("httpx") is None:
        problem = "asking an endpoint needs the `httpx` package"
        raise MissingExtraError(problem, help="pip install 'demur[evals]'")
    # Imported by name, because httpx is optional.
    http = import_module("demur.evals.http_target")
    if spec.startswith("http"):
        return cast("EvalTarget", http.OpenAITarget(spec, _read(http.OpenAIOptions, options)))
    return cast("EvalTarget", http.LocalServerTarget(_read(http.LocalServerOptions, options)))


def _read(kind: type[OptionsT], options: Mapping[str, Any]) -> OptionsT:
    known = kind.__struct_fields__
    for name in options:
        if name not in known:
            help_text = did_you_mean(name, known) or f"one of {', '.join(known)}"
            raise TargetError(f"the target has no option `{name}`", help=help_text)
    try:
        return msgspec.convert(dict(options), kind, strict=False)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        where = place.strip("`").removeprefix("$.") or None
        raise TargetError(problem[:1].lower() + problem[1:], where=where) from error
