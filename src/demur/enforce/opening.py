"""Build an enforcer from settings: of a file, of the caller, or the default ones."""

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from demur.codes.loading import default_registry
from demur.codes.registry import Registry
from demur.codes.vocabulary import Surface
from demur.enforce.changes import CHANGEABLE
from demur.enforce.enforcer import AGENT_SURFACES, Enforcer
from demur.errors import InputError, InputTypeError
from demur.gate.config import (
    Config,
    database_path,
    default_config,
    find_config,
    load_config,
    open_gate,
)
from demur.gate.gate import Gate
from demur.gate.guard_pipeline import ConfigChange, build_pipeline
from demur.gate.guard_settings import GuardSettings, read_guard_settings
from demur.gate.pipeline import GuardPipeline, GuardStep
from demur.gate.rate import Limiter
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.paths import HOME, path_spellings
from demur.policy.loader import AGENT_POLICY
from demur.policy.policy import Policy
from demur.scan.cache import cache_folder
from demur.scorers.contract import Scorer
from demur.store.store import Store

# The default of `store`, because None means that there is none.
_FROM_SETTINGS: Any = object()


@cache
def own_paths() -> tuple[str, ...]:
    """Return the files and folders that demur runs from: program, package, interpreter."""
    package, interpreter = Path(__file__).parents[1], Path(sys.executable)
    paths = [package, interpreter, interpreter.with_name("demur"), Path(os.__file__).parent]
    if package.parent.name in {"site-packages", "dist-packages"}:
        paths.append(package.parent)
    if sys.prefix != sys.base_prefix:
        names = ("bin", "lib", "Scripts", "Lib", "pyvenv.cfg")
        paths += [Path(sys.prefix, name) for name in names]
    program = Path(sys.argv[0] if sys.argv else "")
    if program.stem == "demur":
        paths.append(program.absolute())
    return _stated_and_real(paths)


def _cache_paths() -> tuple[str, ...]:
    """Return the folder of compiled rules, which are trusted like code."""
    folder = cache_folder()
    return () if folder is None else _stated_and_real([folder])


def list_own_files(config: Config, path: Path | str | None = None) -> tuple[str, ...]:
    """Return the files that the settings name, also those that demur writes, and their own."""
    named = (config.policy, config.keys, *config.registries, *config.guards.files, path)
    files = [Path(one) for one in named if one]
    database = database_path(config)
    if database is not None:
        files += [database, *(Path(f"{database}{end}") for end in ("-wal", "-shm"))]
        spool = config.spool if config.spool is not None else f"{database}.spool.jsonl"
        files += [Path(spool)] if spool else []
    return _stated_and_real(files)


def _stated_and_real(paths: Iterable[Path]) -> tuple[str, ...]:
    forms = (form for path in paths for form in (path.absolute(), path.resolve()))
    return tuple(dict.fromkeys(map(str, forms)))


def _home_forms(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths below the home folder as commands name them: `~/…`."""
    with suppress(RuntimeError):
        home = f"{Path.home()}{os.sep}"
        yield from (f"~/{path[len(home) :]}" for path in paths if path.startswith(home))


def resolve_links(path: str, folder: str = "") -> str | None:
    """Return where the links of a path lead, or None if it has none.

    `folder` is the start of a relative path; without one, demur does not guess where it starts.
    """
    home = str(Path.home())
    for form in path_spellings(path):
        whole = home + form[len(HOME) :] if form.startswith(HOME) else form
        try:
            # The system follows a link before a `..` behind it, so that `..` stays until then.
            joined = Path(folder, whole)
            if not joined.is_absolute():
                continue
            stated, real = os.path.normpath(joined), os.path.realpath(joined)
        except (OSError, ValueError, RuntimeError):
            continue
        if real != stated:
            return real
    return None


def build_enforcer(
    gate: Gate | None,
    guards: GuardSettings | None = None,
    *,
    surfaces: Iterable[Surface] = AGENT_SURFACES,
    changes: Mapping[Surface, ConfigChange] | None = None,
    steps: Iterable[GuardStep] = (),
    protected: Iterable[str] = (),
    limiter: Limiter | None = None,
    scorers: Iterable[Scorer] | None = None,
    carried: Collection[Surface] = (),
    **settings: Any,
) -> Enforcer:
    """Return an enforcer with the guards that `[guards]` of the settings file describes.

    It has the guards of `surfaces`. `changes` change the settings of built-in guards, `steps` are
    further guards; `settings` are those of `Enforcer`. No tool may change `protected` files, nor
    those that demur runs from, without approval. `limiter` counts rates if the settings name none.
    `scorers` take the place of the models that the settings name. The caller applies the changes
    of results on the surfaces in `carried`; on others nothing is changed.

    Raises:
        InputError: A setting is invalid.
        TextRuleError: A file of rules is invalid.
        GuardError: An installed guard is unusable.
    """
    chosen = read_guard_settings({} if guards is None else guards, "guards")
    own = {"locale": chosen.locale, **settings}
    if own.get("pipeline") is None:
        own["pipeline"] = build_agent_pipeline(
            chosen,
            default_registry() if gate is None else gate.registry,
            surfaces=surfaces,
            changes=changes,
            protected=protected,
            resolve=own.get("resolve_path") is not None,
            steps=steps,
            limiter=limiter,
            scorers=scorers,
        )
    own["tools"] = {**chosen.tools, **(own.get("tools") or {})}
    own.setdefault("on_finding", chosen.on_finding)
    return Enforcer.coerce(Enforcer(gate, **own), carried=carried)


def build_agent_pipeline(
    guards: GuardSettings,
    registry: Registry,
    *,
    surfaces: Iterable[Surface | str] = AGENT_SURFACES,
    changes: Mapping[Surface, ConfigChange] | None = None,
    protected: Iterable[str] = (),
    resolve: bool = False,
    **more: Any,
) -> GuardPipeline:
    """Return the pipeline of an enforcer, which protects the files that demur runs from and caches.

    `resolve` says that the enforcer looks up where links lead; `more` is for `build_pipeline`.
    """
    known = dict(changes or {})
    own = (*own_paths(), *_cache_paths(), *protected)
    known[Surface.CODE_EXECUTION] = _add_paths(
        known.get(Surface.CODE_EXECUTION), protected=own, resolve=resolve
    )
    return build_pipeline(guards, *surfaces, registry=registry, changes=known, **more)


def _add_paths(
    change: ConfigChange | None, *, protected: tuple[str, ...], resolve: bool
) -> ConfigChange:
    """Return a change that also adds protected files, and where links of folders lead."""

    def add_paths(config: CommandConfig) -> CommandConfig:
        changed = config if change is None else change(config)
        folders = {name: getattr(changed, name) for name in ("workspace", "scratch")}
        if resolve:
            folders = {
                name: tuple(dict.fromkeys((*paths, *map(os.path.realpath, paths))))
                for name, paths in folders.items()
            }
        named = (*changed.protected, *protected)
        whole = (*named, *_home_forms(named))
        return msgspec.structs.replace(changed, protected=whole, **folders)

    return add_paths


def open_enforcer(
    config: Config | Path | str | None = None,
    *,
    policy: Policy | Path | str | None = None,
    store: Store | Path | str | None = _FROM_SETTINGS,
    **settings: Any,
) -> Enforcer:
    """Return an enforcer with its own gate; `settings` are those of `Enforcer`. Close it when done.

    `config` is a `Config` or a settings file; by default the file that `DEMUR_CONFIG` names or the
    nearest `demur.toml` (`find_config`). If there is none, the policy for agents applies, which has
    no rules, and records go to `demur.db` in the working directory. `policy` and `store` replace
    those of the settings; each may be a path, and `store=None` keeps no records. A store that
    cannot be reached is no error here: checks abstain with STORAGE_UNAVAILABLE until it is.

    Raises:
        InputError: The settings are invalid.
        InputTypeError: An argument has the wrong type.
        PolicyError: The policy is invalid.
        StorageError: The store is a folder, no database, or newer than this demur.
    """
    chosen = _read_config(config)
    if policy is not None and not isinstance(policy, Policy):
        chosen = msgspec.structs.replace(chosen, policy=_path_text("policy", "a `Policy`", policy))
        policy = None
    if store is not _FROM_SETTINGS:
        no_path = store is None or isinstance(store, Store)
        path = "" if no_path else _path_text("store", "a `Store`, None", store)
        chosen = msgspec.structs.replace(chosen, store=path)
    own_store = store if isinstance(store, Store) else None
    gate = open_gate(chosen, policy=policy, store=own_store)
    try:
        files = list_own_files(chosen, config if isinstance(config, Path | str) else None)
        return build_enforcer(gate, chosen.guards, protected=files, carried=CHANGEABLE, **settings)
    except BaseException:
        gate.close()
        raise


def _read_config(config: Config | Path | str | None) -> Config:
    """Return the settings that the argument names, or else the default ones."""
    source = find_config() if config is None else config
    if source is None:
        return default_config()
    if isinstance(source, Config):
        return source
    path = _path_text("config", "a `Config`", source)
    if path.endswith((".yaml", ".yml")):
        problem, help_text = "config is a settings file, and this is YAML", f"policy={path!r}"
        raise InputError(problem, where=path, help=f"a policy goes into `{help_text}`")
    return load_config(path)


def _path_text(name: str, expected: str, path: object) -> str:
    """Return the path that an argument names."""
    if not isinstance(path, Path | str):
        raise InputTypeError.wrong_type(name, f"{expected} or a path", path)
    return str(path)


def read_agent_policy() -> str:
    """Return the text of the default policy for agents."""
    return AGENT_POLICY.read_text(encoding="utf-8")
