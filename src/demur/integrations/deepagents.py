"""deepagents: guard a deep agent and its subagents.

Pass a `DeepAgentsGuard` as middleware to `create_deep_agent`, and the subagents through its
`protect_subagents`. Without that the agent does not run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from demur.errors import InputError, InputTypeError
from demur.integrations._kit import missing_extra

try:
    from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
except ImportError as error:
    raise missing_extra("deepagents") from error

from demur.integrations.langchain.middleware import LangChainGuard
from demur.integrations.langchain.subagents import has_guard

__all__ = ["DeepAgentsGuard"]


class DeepAgentsGuard(LangChainGuard):
    """A `LangChainGuard` that guards the subagents of `create_deep_agent` as well."""

    def protect_subagents(
        self,
        subagents: Iterable[Any] = (),
        *,
        unguarded: Iterable[str] = (),
        general_purpose: bool = True,
    ) -> list[Any]:
        """Return the subagents for `create_deep_agent`, each with this guard.

        They include the general-purpose subagent that deepagents adds, unless
        `general_purpose` is off. `unguarded` names subagents that may run without checks. A
        subagent that runs elsewhere is returned as it is.

        Raises:
            InputError: A compiled subagent has no guard.
        """
        self._unguarded_subagents |= {*unguarded}
        specs = [self._guard_spec(spec) for spec in subagents]
        default = GENERAL_PURPOSE_SUBAGENT
        if general_purpose and default["name"] not in {spec["name"] for spec in specs}:
            specs.insert(0, {**default, "middleware": [self]})
        return specs

    def _guard_spec(self, spec: Any) -> Any:
        if not isinstance(spec, Mapping) or "name" not in spec:
            raise InputTypeError.wrong_type("a subagent", "a mapping with a name", spec)
        name = spec["name"]
        if name in self._unguarded_subagents or "graph_id" in spec:
            return spec
        if "runnable" not in spec:
            others = spec.get("middleware", ())
            is_guarded = any(isinstance(one, LangChainGuard) for one in others)
            return spec if is_guarded else {**spec, "middleware": [*others, self]}
        if not has_guard(spec["runnable"]):
            raise InputError(
                f"the compiled subagent `{name}` has no guard",
                where="subagents",
                help="compile it with a `LangChainGuard`, or name it in `unguarded`",
            )
        return spec
