"""Open an enforcer from a settings file, or with the default policy for agents."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from demur.enforce.enforcer import Enforcer
from demur.gate.config import Config, find_config, load_config, open_gate
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.store.opening import open_store

__all__ = ["read_agent_policy", "open_enforcer"]

_DEFAULT_STORE = "demur.db"


def open_enforcer(config: Config | Path | str | None = None, **settings: Any) -> Enforcer:
    """Return an enforcer with its own gate; `settings` are those of `Enforcer`. Close it when done.

    `config` is a `Config` or a settings file; by default the file that `DEMUR_CONFIG` names or
    `demur.toml` in the working directory. If there is none, the default policy for agents
    applies, and records go to `demur.db` in the working directory.

    Raises:
        InputError: The settings cannot be used.
        PolicyError: The policy cannot be used.
    """
    gate = _open_gate(config)
    try:
        return Enforcer(gate, **settings)
    except BaseException:
        gate.close()
        raise


def read_agent_policy() -> str:
    """Return the text of the default policy for agents."""
    return (files("demur.enforce") / "agent_policy.yaml").read_text(encoding="utf-8")


def _open_gate(config: Config | Path | str | None) -> Gate:
    given = find_config() if config is None else config
    if given is None:
        return Gate(
            parse_policy(read_agent_policy(), "agent_policy.yaml"), open_store(_DEFAULT_STORE)
        )
    return open_gate(given if isinstance(given, Config) else load_config(given))
