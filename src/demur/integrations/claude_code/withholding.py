"""A tool's output without what was in it, in the shape that Claude Code expects.

It keeps the original if a replacement does not fit the tool's own schema. So the shape stays:
every text is replaced, except the names by which a tool tells its kinds of output apart.
"""

import re
from collections.abc import Collection
from typing import Any

__all__ = ["withheld"]

_KIND = re.compile(r"[A-Za-z][A-Za-z_/+-]{0,29}")


def withheld(output: Any, text: str, known: Collection[object] = ()) -> Any:
    """Return `output` with `text` in place of every text in it; empty ones stay empty.

    `known` are texts that may stay because the agent wrote them itself, like a path.
    """
    # INVARIANT: no text of an output is left in what replaces it, except kinds and known ones.
    if isinstance(output, str):
        return output if not output or output in known else text
    if isinstance(output, list):
        return [withheld(item, text, known) for item in output]
    if isinstance(output, dict):
        return {
            name: value if name == "type" and _is_kind(value) else withheld(value, text, known)
            for name, value in output.items()
        }
    return output


def _is_kind(value: Any) -> bool:
    return isinstance(value, str) and _KIND.fullmatch(value) is not None
