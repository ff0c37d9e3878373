"""A target from a word, as the command line and other programs give it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import msgspec

from demur.errors import MissingExtraError
from demur.evals.target import Target, TargetError
from demur.evals.targets.command import CommandOptions, CommandTarget
from demur.evals.targets.guards import GuardsOptions, GuardsTarget, PolicyOptions, PolicyTarget
from demur.evals.targets.python_callable import PythonCallable, PythonOptions, find_function
from demur.evals.targets.recorded import RecordedAnswers, RecordedOptions
from demur.source.suggest import did_you_mean

__all__ = ["FORMS", "open_target"]

FORMS = (
    "http://…",
    "python:MODULE:FUNCTION",
    "command:…",
    "recorded:FILE",
    "guards",
    "policy:FILE",
    "demur-testing-server",
)
_HERE = "demur.evals.targets"
Options = TypeVar("Options", bound=msgspec.Struct)


def open_target(spec: str, **options: Any) -> Target:
    """Return the target that `spec` names, in one of the `FORMS`.

    Options may be strings, as a command line gives them: `retries="2"`.

    Raises:
        TargetError: The target or one of its options is unknown.
        MissingExtraError: The target needs an optional dependency.
    """
    kind, _, rest = spec.partition(":")
    make = _MAKERS.get(kind)
    if make is None:
        raise TargetError(f"unknown target `{spec}`", help=f"one of {', '.join(FORMS)}")
    return make(rest if kind not in {"http", "https"} else spec, options)


def _http(url: str, options: Mapping[str, Any]) -> Target:
    # Imported by name, because httpx is optional.
    module = _with_httpx("openai_compatible")
    return cast("Target", module.OpenAICompatible(url, _read(module.OpenAIOptions, options)))


def _testing(rest: str, options: Mapping[str, Any]) -> Target:
    del rest
    module = _with_httpx("local_server")
    return cast("Target", module.LocalServer(_read(module.LocalServerOptions, options)))


def _python(rest: str, options: Mapping[str, Any]) -> Target:
    given = _read(PythonOptions, options)
    return PythonCallable(find_function(rest), given, name=rest)


def _command(rest: str, options: Mapping[str, Any]) -> Target:
    return CommandTarget(rest, _read(CommandOptions, options))


def _recorded(rest: str, options: Mapping[str, Any]) -> Target:
    return RecordedAnswers(rest, _read(RecordedOptions, options))


def _guards(rest: str, options: Mapping[str, Any]) -> Target:
    del rest
    given = _read(GuardsOptions, options)
    return GuardsTarget(_behind(given.behind), locale=given.locale)


def _policy(rest: str, options: Mapping[str, Any]) -> Target:
    given = _read(PolicyOptions, options)
    behind = _behind(given.behind)
    return PolicyTarget(rest, behind, action_type=given.action_type, locale=given.locale)


_MAKERS: Mapping[str, Callable[[str, Mapping[str, Any]], Target]] = {
    "http": _http,
    "https": _http,
    "python": _python,
    "command": _command,
    "recorded": _recorded,
    "guards": _guards,
    "policy": _policy,
    "demur-testing-server": _testing,
}


def _behind(spec: str) -> Target | None:
    return open_target(spec) if spec else None


def _with_httpx(module: str) -> Any:
    if find_spec("httpx") is None:
        raise MissingExtraError(
            "asking an endpoint needs the `httpx` package", help="pip install 'demur[evals]'"
        )
    return import_module(f"{_HERE}.{module}")


def _read(kind: type[Options], options: Mapping[str, Any]) -> Options:
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
