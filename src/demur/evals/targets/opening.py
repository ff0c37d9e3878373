"""A target from a word, as the command line and other programs give it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import msgspec

from demur.errors import MissingExtraError
from demur.evals.target import EvalTarget, TargetError
from demur.evals.targets.command import CommandOptions, CommandTarget
from demur.evals.targets.guards import GuardsOptions, GuardsTarget, PolicyOptions, PolicyTarget
from demur.evals.targets.python_callable import PythonTarget, PythonOptions, find_function
from demur.evals.targets.recorded import RecordedTarget, RecordedOptions
from demur.source.suggest import did_you_mean

__all__ = ["TARGET_FORMS", "open_target"]

TARGET_FORMS = (
    "http://…",
    "python:MODULE:FUNCTION",
    "command:…",
    "recorded:FILE",
    "guards",
    "policy:FILE",
    "demur-testing-server",
)
_TARGETS_PACKAGE = "demur.evals.targets"
OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)


def open_target(spec: str, **options: Any) -> EvalTarget:
    """Return the target that `spec` names, in one of the `TARGET_FORMS`.

    Options may be strings, as a command line gives them: `retries="2"`.

    Raises:
        TargetError: The target or one of its options is unknown.
        MissingExtraError: The target needs an optional dependency.
    """
    kind, _, rest = spec.partition(":")
    make = _TARGET_OPENERS.get(kind)
    if make is None:
        raise TargetError(f"unknown target `{spec}`", help=f"one of {', '.join(TARGET_FORMS)}")
    return make(rest if kind not in {"http", "https"} else spec, options)


def _open_http(url: str, options: Mapping[str, Any]) -> EvalTarget:
    # Imported by name, because httpx is optional.
    module = _import_http_target("openai_compatible")
    return cast(
        "EvalTarget", module.OpenAICompatible(url, _convert_options(module.OpenAIOptions, options))
    )


def _open_testing_server(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    del rest
    module = _import_http_target("local_server")
    return cast(
        "EvalTarget", module.LocalServer(_convert_options(module.LocalServerOptions, options))
    )


def _open_python(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    given = _convert_options(PythonOptions, options)
    return PythonTarget(find_function(rest), given, name=rest)


def _open_command(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    return CommandTarget(rest, _convert_options(CommandOptions, options))


def _open_recorded(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    return RecordedTarget(rest, _convert_options(RecordedOptions, options))


def _open_guards(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    del rest
    given = _convert_options(GuardsOptions, options)
    return GuardsTarget(_open_behind(given.behind), locale=given.locale)


def _open_policy(rest: str, options: Mapping[str, Any]) -> EvalTarget:
    given = _convert_options(PolicyOptions, options)
    behind = _open_behind(given.behind)
    return PolicyTarget(rest, behind, action_type=given.action_type, locale=given.locale)


_TARGET_OPENERS: Mapping[str, Callable[[str, Mapping[str, Any]], EvalTarget]] = {
    "http": _open_http,
    "https": _open_http,
    "python": _open_python,
    "command": _open_command,
    "recorded": _open_recorded,
    "guards": _open_guards,
    "policy": _open_policy,
    "demur-testing-server": _open_testing_server,
}


def _open_behind(spec: str) -> EvalTarget | None:
    return open_target(spec) if spec else None


def _import_http_target(module: str) -> Any:
    if find_spec("httpx") is None:
        raise MissingExtraError(
            "asking an endpoint needs the `httpx` package", help="pip install 'demur[evals]'"
        )
    return import_module(f"{_TARGETS_PACKAGE}.{module}")


def _convert_options(kind: type[OptionsT], options: Mapping[str, Any]) -> OptionsT:
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
