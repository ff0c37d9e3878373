"""The operator's settings of guards: the `[guards]` table of `demur.toml`.

It holds own rules, limits, a locale, a shadow mode, and settings of tools and of each built-in
guard. `demur.gate.guard_pipeline` builds the pipeline that they describe.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from demur.codes.vocabulary import Surface
from demur.errors import InputError
from demur.guards.builtin import RULE_FIELDS, config_type, read_config
from demur.guards.rate import RateLimit
from demur.scorers.settings import ModelSettings, load_kinds
from demur.source.item import did_you_mean
from demur.source.mismatch import describe_mismatch

# Guards from other packages may wait for a network, so they get a timeout.
GUARD_TIMEOUT_S = 2.0
# Paths in the settings of guards: the folders that an agent works in.
_FOLDER_FIELD = "workspace"
_Settings = TypeVar("_Settings", bound=msgspec.Struct)


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one tool.

    `command` names the argument that holds a command. `loops` says whether repeating a call makes
    a loop. `deny` refuses every call. `mode = "shadow"` records what would be refused, and refuses
    nothing.
    """

    command: str | None = None
    loops: bool = True
    deny: bool = False
    mode: Literal["shadow"] | None = None


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[guards]` part of the settings file.

    `rules` are files of text rules that are added to the built-in ones, `replace_rules` those that
    replace them. `shadow` names surfaces, installed guards or codes whose findings are recorded
    and do not bind. `limits` are rate limits of prompts, counted in this process or by the
    `limiter`, a Redis URL. `timeout_s` is for guards of other packages. `models` are models of your
    own that score texts, by name. `learned` says whether those of `demur-models` do, if they are
    installed. `on_finding` changes texts instead of refusing them, as for an `Enforcer`, in
    programs that can change them. The rest are settings of the built-in guard of that surface.
    """

    rules: tuple[str, ...] = ()
    replace_rules: tuple[str, ...] = ()
    locale: str | None = None
    shadow: tuple[str, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    limiter: str | None = None
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = GUARD_TIMEOUT_S
    tools: dict[str, ToolSettings] = {}
    models: dict[str, ModelSettings] = {}
    on_finding: str | dict[str, Any] = {}
    learned: bool = True
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    tool_call: dict[str, Any] = {}
    tool_loop: dict[str, Any] = {}
    tool_result: dict[str, Any] = {}
    retrieval: dict[str, Any] = {}
    compaction: dict[str, Any] = {}
    code_execution: dict[str, Any] = {}

    @property
    def commands(self) -> dict[str, str]:
        """The tools that run commands, with the argument that holds the command."""
        named = {name: tool.command for name, tool in self.tools.items()}
        return {name: argument for name, argument in named.items() if argument is not None}

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it names."""
        return (*self.rules, *self.replace_rules)

    def with_fields(self, surface: Surface | str, fields: Mapping[str, Any]) -> "GuardSettings":
        """Return the settings with further ones of a built-in guard."""
        own = {**getattr(self, surface), **fields}
        return replace(self, **{str(surface): own})


CONFIGURED_SURFACES = tuple(
    name for name in GuardSettings.__struct_fields__ if name in set(Surface)
)


def read_guard_settings(table: Any, where: str) -> GuardSettings:
    """Return the settings in a table; `where` is its place in errors.

    Raises:
        InputError: A setting is unknown or invalid.
    """
    if isinstance(table, GuardSettings):
        return table
    fields = _require_known(table, GuardSettings, where)
    for name, tool in _entries(fields.get("tools"), f"{where}.tools"):
        _read_tool(tool, f"{where}.tools.{name}")
    for name, model in _entries(fields.get("models"), f"{where}.models", "models.llama_guard"):
        place, example = f"{where}.models.{name}", "models.llama_guard"
        known = _require_known(model, ModelSettings, place, example)
        if "kind" not in known:
            raise InputError(
                "a model needs `kind`", where=place, help=f"one of {', '.join(load_kinds())}"
            )
        _convert_table(known, ModelSettings, place)
    limits = fields.get("limits")
    for number, limit in enumerate(limits if isinstance(limits, list) else ()):
        _require_known(limit, RateLimit, f"{where}.limits[{number}]")
    for surface in CONFIGURED_SURFACES:
        _check_guard_fields(surface, fields.get(surface, {}), f"{where}.{surface}")
    return _convert_table(fields, GuardSettings, where)


def read_tool_settings(tools: Any, where: str) -> dict[str, ToolSettings]:
    """Return the settings of tools by name; each may be a table.

    Raises:
        InputError: A setting is unknown or invalid.
    """
    return {
        name: tool if isinstance(tool, ToolSettings) else _read_tool(tool, f"{where}.{name}")
        for name, tool in _entries(tools, where)
    }


def _read_tool(table: Any, where: str) -> ToolSettings:
    return _convert_table(_require_known(table, ToolSettings, where), ToolSettings, where)


def _convert_table(fields: Mapping[str, Any], kind: type[_Settings], where: str) -> _Settings:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        found = describe_mismatch(error, kind)
        place = f"{where}.{found.where}" if found.where else where
        raise InputError(found.problem, where=place, help=found.help) from error


def _entries(table: Any, where: str, example: str = "tools.bash") -> Iterable[tuple[str, Any]]:
    if table is None:
        return ()
    if not isinstance(table, dict):
        raise InputError("expected a table", where=where, help=f"like `[guards.{example}]`")
    return table.items()


def _require_known(
    table: Any, kind: type[msgspec.Struct], where: str, example: str = ""
) -> dict[str, Any]:
    if not isinstance(table, dict):
        help_text = f"like `[guards.{example}]`" if example else None
        raise InputError("expected a table", where=where, help=help_text)
    names = kind.__struct_fields__
    for name in table:
        if name not in names:
            meant = did_you_mean(name, names) or f"one of {', '.join(names)}"
            raise InputError(f"unknown setting `{name}`", where=where, help=meant)
    return table


def _check_guard_fields(surface: str, fields: Any, where: str) -> None:
    if fields == {}:
        return
    kind = config_type(surface)
    for name in RULE_FIELDS:
        if isinstance(fields, dict) and name in fields:
            problem, help_text = "rules are files", "name them under `rules` of `[guards]`"
            raise InputError(problem, where=f"{where}.{name}", help=help_text)
    _require_known(fields, kind, where)
    try:
        read_config(surface, fields)
    except InputError as error:
        place = f"{where}.{error.where}" if error.where else where
        raise InputError(error.problem, where=place, help=error.help) from error


def resolve_guard_paths(settings: GuardSettings, folder: Path) -> GuardSettings:
    """Return the settings with paths resolved against the folder of their file."""

    def place(path: str) -> str:
        return str(folder / path)

    def place_folders(fields: dict[str, Any]) -> dict[str, Any]:
        named = fields.get(_FOLDER_FIELD)
        if named is None:
            return fields
        base = folder.absolute()
        return {**fields, _FOLDER_FIELD: [os.path.normpath(base / path) for path in named]}

    def place_model(model: ModelSettings) -> ModelSettings:
        named = {name: getattr(model, name) for name in ("path", "file", "tokenizer")}
        return replace(model, **{name: place(path) for name, path in named.items() if path})

    return replace(
        settings,
        models={name: place_model(model) for name, model in settings.models.items()},
        rules=tuple(map(place, settings.rules)),
        replace_rules=tuple(map(place, settings.replace_rules)),
        tool_call=place_folders(settings.tool_call),
        code_execution=place_folders(settings.code_execution),
    )
