"""The guardrail of a proxy: all it is told is a line of YAML."""

from demur.enforce.enforcer import Enforcer
from demur.errors import DemurError, InputError
from demur.gate.config import CONFIG_NAME, find_config, load_config, open_gate

__all__ = ["GuardrailSettingsError", "enforcer_of"]


class GuardrailSettingsError(DemurError):
    """The guardrail cannot be set up, and the proxy must not start without it.

    Not a `ValueError`: LiteLLM logs those and serves unguarded.
    """


def enforcer_of(path: str | None) -> Enforcer:
    """Return the enforcer that a settings file describes: this one, or the one that is found.

    Raises:
        InputError: There is none, or it cannot be used.
    """
    found = find_config() if path is None else path
    if found is None:
        raise InputError(
            "no settings for the guardrail",
            help=f"set `demur_config` in its `litellm_params`, or put a `{CONFIG_NAME}` there",
        )
    return Enforcer(open_gate(load_config(found)))
