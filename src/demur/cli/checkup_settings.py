"""Check the configuration: settings, registry, policy, redaction, keys."""

from collections.abc import Iterator
from pathlib import Path

from demur.classification.keys import KeyRing
from demur.cli.checkup import Check, ok, problem, problems_of, warning
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.usage.rules import Level
from demur.errors import DemurError
from demur.gate.config import Config, trusted_keys
from demur.gate.redaction import OFF, profile_named
from demur.policy.lint import lint_policy
from demur.policy.loader import load_policy
from demur.policy.policy import Mode, Policy

__all__ = ["check_settings"]


def check_settings(path: Path, config: Config) -> Iterator[Check]:
    """Yield checks of the settings and of the files that they name."""
    yield ok("settings", str(path))
    try:
        registry = default_registry(*config.registries)
    except DemurError as error:
        yield from problems_of("registry", error)
    else:
        yield ok("registry", f"{len(registry)} codes, {registry.label}")
        yield from _policy(config, registry)
    yield from _redaction(config)
    yield from _keys(config)


def _policy(config: Config, registry: Registry) -> Iterator[Check]:
    try:
        policy = load_policy(config.policy, registry=registry)
    except DemurError as error:
        all_of_it = f"`demur policy validate {config.policy}` lists all problems"
        yield from problems_of("policy", error, all_of_it)
        return
    rules = f"{len(policy.rules)} rule{'s' * (len(policy.rules) != 1)}"
    yield ok("policy", f"{policy.policy_id} {policy.policy_version}, {rules}")
    yield from _lint(policy, config, registry)
    mode = policy.mode if config.mode is None else config.mode
    if mode is Mode.ADVISORY:
        help_text = "advisory mode is meant for trials; `enforce` makes verdicts binding"
        yield warning("mode", "advisory: verdicts are recorded and do not bind", help_text)


def _lint(policy: Policy, config: Config, registry: Registry) -> Iterator[Check]:
    remarks = lint_policy(policy, registry)
    help_text = f"`demur policy lint {config.policy}` lists all diagnostics"
    for level, make in ((Level.ERROR, problem), (Level.WARNING, warning)):
        found = [remark for remark in remarks if remark.level is level]
        if found:
            more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
            yield make("policy", f"{found[0].where}: {found[0].message}{more}", help_text)


def _redaction(config: Config) -> Iterator[Check]:
    try:
        profile = profile_named(config.redaction, config.redact_paths)
    except DemurError as error:
        yield from problems_of("redaction", error)
        return
    if profile.name == OFF.name:
        help_text = "`default` removes likely secrets before storing"
        yield warning("redaction", "off: secrets in requests are stored unredacted", help_text)
    else:
        more = f", and {', '.join(config.redact_paths)}" if config.redact_paths else ""
        yield ok("redaction", f"{profile.name}{more}")


def _keys(config: Config) -> Iterator[Check]:
    try:
        keys = trusted_keys(config.keys)
        _try_out(keys)
    except DemurError as error:
        yield from problems_of("keys", error)
        return
    if keys:
        holders = ", ".join(sorted({key.holder for key in keys.values()}))
        yield ok("keys", f"grants of {holders} are accepted")
    else:
        yield ok("keys", "no trusted keys, so no grant is accepted")


def _try_out(keys: KeyRing) -> None:
    """Verify a signature with each key, to find missing packages."""
    for key in keys.values():
        key.verifies(b"", "")
