"""Build the guard pipeline that the operator's settings describe.

Whatever runs guards builds its pipeline here, so that the same settings mean the same in Python,
on the command line, in the hook, in the proxy and over HTTP.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from demur.codes.entry import Entry
from demur.codes.registry import Registry
from demur.codes.vocabulary import RefusalClass, Surface
from demur.errors import InputError
from demur.gate.guard_settings import CONFIGURED_SURFACES, GuardSettings
from demur.gate.pipeline import GuardPipeline, GuardStep, standard_pipeline
from demur.gate.rate import Limiter, open_limiter
from demur.guards.builtin import RULE_FIELDS, config_type, read_config
from demur.guards.contract import find_installed
from demur.guards.text_rules import RuleSet, builtin_rules, load_rules
from demur.guards.tool_result import builtin_returned_rules
from demur.scorers.contract import Scorer
from demur.scorers.learned import LEARNED_NAME
from demur.source.item import did_you_mean

if TYPE_CHECKING:
    from demur.scorers.brought import BroughtModel

_RETURNED = frozenset({Surface.TOOL_RESULT, Surface.RETRIEVAL})

# Changes the settings of a built-in guard, given those of the file.
ConfigChange = Callable[[Any], Any]


def build_pipeline(
    settings: GuardSettings,
    *surfaces: Surface | str,
    registry: Registry,
    changes: Mapping[Surface, ConfigChange] | None = None,
    steps: Iterable[GuardStep] = (),
    limiter: Limiter | None = None,
    scorers: Iterable[Scorer] | None = None,
    **more: Any,
) -> GuardPipeline:
    """Return the pipeline of the guards of `surfaces`, as the settings describe it.

    `changes` are changes to the settings of built-in guards; `steps` are further guards. `limiter`
    counts rates if the settings name none. `scorers` take the place of those that the settings
    describe, so that pipelines share caches and budgets.

    Raises:
        InputError: A setting is invalid.
        TextRuleError: A file of rules is invalid.
        GuardError: An installed guard is unusable.
    """
    rules = load_guard_rules(settings, registry)
    configs: dict[str, Any] = {}
    for surface in map(Surface, surfaces):
        config = _guard_config(settings, surface, rules.get(surface))
        change = (changes or {}).get(surface)
        if change is not None:
            config = change(read_config(surface, config))
        if config is not None:
            configs[surface] = config
    shadow = _read_shadow(settings.shadow, registry, settings.models)
    if settings.limits and settings.limiter:
        limiter = open_limiter(settings.limiter)
    return standard_pipeline(
        *surfaces,
        limits=settings.limits,
        limiter=limiter,
        timeout_s=settings.timeout_s,
        shadow=[name for name in shadow.guards if name not in set(Surface) - {*surfaces}],
        scorers=open_models(settings, registry) if scorers is None else scorers,
        # Scorers that are handed over hold the learned one already.
        learned=settings.learned and scorers is None,
        shadow_scorers=shadow.scorers,
        configs=configs,
        steps=steps,
        registry=registry,
        shadow_codes=shadow.codes,
        **more,
    )


def open_models(settings: GuardSettings, registry: Registry) -> "list[BroughtModel]":
    """Return the scorers that the settings describe.

    Raises:
        InputError: A setting is invalid.
    """
    if not settings.models:
        return []
    # Clients for HTTP take long to import, and most settings name no model.
    opening = import_module("demur.scorers.brought")
    models = settings.models.items()
    return [opening.open_scorer(name, model, registry=registry) for name, model in models]


def load_guard_rules(settings: GuardSettings, registry: Registry) -> dict[Surface, RuleSet]:
    """Return the text rules in force of each surface for which the settings name a file.

    Raises:
        InputError: The guard of a file's surface does not use text rules.
        TextRuleError: A file cannot be used, or two rules have the same id.
    """
    found: dict[Surface, RuleSet] = {}
    for path in settings.replace_rules:
        own = _load_rule_file(path, registry)
        found[own.surface] = found[own.surface].extend(own) if own.surface in found else own
    for path in settings.rules:
        own = _load_rule_file(path, registry)
        found[own.surface] = (found.get(own.surface) or _builtin_rules(own.surface)).extend(own)
    return found


def find_rule_field(surface: Surface | str) -> str | None:
    """Return the name of the setting that holds the text rules of a surface's guard, or None."""
    fields = config_type(surface).__struct_fields__ if surface in CONFIGURED_SURFACES else ()
    return next((name for name in RULE_FIELDS if name in fields), None)


def _load_rule_file(path: str, registry: Registry) -> RuleSet:
    rules = load_rules(path, registry=registry)
    if find_rule_field(rules.surface) is None:
        raise InputError(f"the guard of `{rules.surface}` does not use text rules", where=path)
    return rules


def _builtin_rules(surface: Surface) -> RuleSet:
    return builtin_returned_rules() if surface in _RETURNED else builtin_rules(surface)


def _guard_config(settings: GuardSettings, surface: Surface, rules: RuleSet | None) -> Any:
    """Return the settings of a surface's guard, or None for its defaults."""
    fields: dict[str, Any] = dict(getattr(settings, surface, {}))
    denied = [name for name, tool in settings.tools.items() if tool.deny]
    unlooped = [name for name, tool in settings.tools.items() if not tool.loops]
    if surface is Surface.TOOL_CALL and denied:
        fields["deny"] = [*fields.get("deny", ()), *map(_escape_pattern, denied)]
    if surface is Surface.TOOL_LOOP and unlooped:
        fields["ignore"] = [*fields.get("ignore", ()), *unlooped]
    if rules is None:
        return read_config(surface, fields) if fields else None
    return replace(read_config(surface, fields), **{find_rule_field(surface) or "": rules})


def _escape_pattern(name: str) -> str:
    """Return the pattern that matches a name and no other."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


class _Shadow(NamedTuple):
    """The surfaces and installed guards, the codes and the models that do not bind."""

    guards: tuple[str, ...]
    codes: tuple[str, ...]
    scorers: tuple[str, ...]


def _is_shadowable(entry: Entry) -> bool:
    """Return whether findings of a code may be put in shadow; a policy says the same."""
    is_hard = entry.refusal_class is RefusalClass.HARD_BLOCK
    return entry.decided and not entry.obligations and not is_hard


def _read_shadow(names: Iterable[str], registry: Registry, models: Collection[str]) -> _Shadow:
    guards, codes, scorers = [], [], []
    for name in names:
        entry = registry.get(name)
        if name in models or name == LEARNED_NAME:
            scorers.append(name)
        elif entry is None:
            guards.append(name)
        elif not _is_shadowable(entry):
            problem = f"findings of `{name}` always bind"
            help_text = "it is a HARD_BLOCK, a person may be in danger, or nothing was judged"
            raise InputError(problem, where="guards.shadow", help=help_text)
        else:
            codes.append(name)
    known = {*Surface, *(one.name for one in find_installed())} if guards else set()
    for name in guards:
        if name not in known:
            meant = did_you_mean(name, [*known, *models, *(entry.code for entry in registry)])
            help_text = meant or "a surface, the name of an installed guard or a model, or a code"
            raise InputError(
                f"unknown guard or code `{name}`", where="guards.shadow", help=help_text
            )
    return _Shadow(tuple(guards), tuple(codes), tuple(scorers))
