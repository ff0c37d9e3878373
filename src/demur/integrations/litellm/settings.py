"""The guardrail of a proxy: all it is told is a line of YAML."""

from demur.enforce.enforcer import Enforcer
from demur.errors import DemurError, InputError
from demur.gate.config import CONFIG_NAME, find_config, load_config, open_gate

__all__ = ["GuardrailSettingsError", "open_config_enforcer"]


class GuardrailSettingsError(DemurError):
    """The guardrail cannot be set up, so the proxy must not start.

    It is no `ValueError`, because LiteLLM logs those and serves without the guardrail.
    """


def open_config_enforcer(path: str | None) -> Enforcer:
    """Return the enforcer of a settings file: the given one, or else the default one.

    Raises:
        InputError: There is no settings file, or it is invalid.
    """
    found = find_config() if path is None else path
    if found is None:
        raise InputError(
            "no settings file for the guardrail",
            help=f"set `demur_config` in its `litellm_params`, or add a `{CONFIG_NAME}`",
        )
    return Enforcer(open_gate(load_config(found)))
