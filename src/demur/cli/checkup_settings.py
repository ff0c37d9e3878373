"""Check the configuration: settings, registry, policy, redaction, keys."""

from collections.abc import Iterator
from pathlib import Path

from demur.classification.keys import KeyRing
from demur.cli.checkup import HealthCheck, report_ok, report_problem, report_error, report_warning
from demur.codes.default import default_registry
from demur.codes.registry import Registry
from demur.codes.usage.rules import LintLevel
from demur.errors import DemurError
from demur.gate.config import Config, load_trusted_keys
from demur.gate.redaction import NO_REDACTION, find_profile
from demur.policy.lint import lint_policy
from demur.policy.loader import load_policy
from demur.policy.policy import Mode, Policy

__all__ = ["check_settings"]


def check_settings(path: Path, config: Config) -> Iterator[HealthCheck]:
    """Yield checks of the settings and of the files that they name."""
    yield report_ok("settings", str(path))
    try:
        registry = default_registry(*config.registries)
    except DemurError as error:
        yield from report_error("registry", error)
    else:
        yield report_ok("registry", f"{len(registry)} codes, {registry.label}")
        yield from _check_policy(config, registry)
    yield from _check_redaction(config)
    yield from _check_keys(config)


def _check_policy(config: Config, registry: Registry) -> Iterator[HealthCheck]:
    try:
        policy = load_policy(config.policy, registry=registry)
    except DemurError as error:
        all_of_it = f"`demur policy validate {config.policy}` lists all problems"
        yield from report_error("policy", error, all_of_it)
        return
    rules = f"{len(policy.rules)} rule{'s' * (len(policy.rules) != 1)}"
    yield report_ok("policy", f"{policy.policy_id} {policy.policy_version}, {rules}")
    yield from _check_lint(policy, config, registry)
    mode = policy.mode if config.mode is None else config.mode
    if mode is Mode.ADVISORY:
        help_text = "advisory mode is meant for trials; `enforce` makes verdicts binding"
        yield report_warning("mode", "advisory: verdicts are recorded and do not bind", help_text)


def _check_lint(policy: Policy, config: Config, registry: Registry) -> Iterator[HealthCheck]:
    remarks = lint_policy(policy, registry)
    help_text = f"`demur policy lint {config.policy}` lists all diagnostics"
    for level, make in ((LintLevel.ERROR, report_problem), (LintLevel.WARNING, report_warning)):
        found = [remark for remark in remarks if remark.level is level]
        if found:
            more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
            yield make("policy", f"{found[0].where}: {found[0].message}{more}", help_text)


def _check_redaction(config: Config) -> Iterator[HealthCheck]:
    try:
        profile = find_profile(config.redaction, config.redact_paths)
    except DemurError as error:
        yield from report_error("redaction", error)
        return
    if profile.name == NO_REDACTION.name:
        help_text = "`default` removes likely secrets before storing"
        yield report_warning(
            "redaction", "off: secrets in requests are stored unredacted", help_text
        )
    else:
        more = f", and {', '.join(config.redact_paths)}" if config.redact_paths else ""
        yield report_ok("redaction", f"{profile.name}{more}")


def _check_keys(config: Config) -> Iterator[HealthCheck]:
    try:
        keys = load_trusted_keys(config.keys)
        _try_keys(keys)
    except DemurError as error:
        yield from report_error("keys", error)
        return
    if keys:
        holders = ", ".join(sorted({key.holder for key in keys.values()}))
        yield report_ok("keys", f"grants of {holders} are accepted")
    else:
        yield report_ok("keys", "no trusted keys, so no grant is accepted")


def _try_keys(keys: KeyRing) -> None:
    """Verify a signature with each key, to find missing packages."""
    for key in keys.values():
        key.verify_signature(b"", "")
