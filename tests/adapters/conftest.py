"""A test of an adapter is there only where its framework is."""

from importlib.util import find_spec
from pathlib import Path

# Two environments: LiteLLM has one of its own, and all the others share one.
_ONE_OF_THE_OTHERS = "agents"

collect_ignore = [
    path.name
    for path in Path(__file__).parent.glob("test_*.py")
    if find_spec("litellm" if "litellm" in path.stem else _ONE_OF_THE_OTHERS) is None
]
