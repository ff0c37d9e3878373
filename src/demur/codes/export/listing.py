"""The registry as JSON: every entry complete, inherited fields filled in."""

from demur.codes.export.text import as_json
from demur.codes.registry import Registry

__all__ = ["render_json"]


def render_json(registry: Registry) -> str:
    """Return all entries and legacy phrases as JSON, for programs that do not run Python."""
    return as_json(
        {
            "registry": registry.label,
            "phrases": dict(sorted(registry.phrases.items())),
            "codes": [entry.as_json() for entry in registry],
        }
    )
