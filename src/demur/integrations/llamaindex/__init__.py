"""LlamaIndex: guarded models for query engines and programs, and guarded agents and workflows.

`LlamaIndexGuard(enforcer).attach(...)` takes a model, an agent or an `AgentWorkflow`.
"""

from demur.integrations._kit import missing_extra

try:
    import llama_index.core.agent.workflow  # noqa: F401 - fail early with the name of the extra
except ImportError as error:
    raise missing_extra("llamaindex", "llama-index-core") from error

from demur.integrations.llamaindex.guard import LlamaIndexGuard

__all__ = ["LlamaIndexGuard"]
