"""A test of an adapter is there only where its framework is."""

from importlib.util import find_spec
from pathlib import Path

# The module that a file's tests need, by a word in its name; all others share one environment.
_MODULES = {"crewai": "crewai", "google_adk": "google.adk", "litellm": "litellm"}
_MODULES |= {"llamaindex": "llama_index.core"}
_ONE_OF_THE_OTHERS = "agents"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


def _needed_module(name: str) -> str:
    return next((module for word, module in _MODULES.items() if word in name), _ONE_OF_THE_OTHERS)


collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if not _is_installed(_needed_module(path.stem))
]
