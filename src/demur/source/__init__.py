"""Documents that people write: YAML whose values know their line and column.

Names are loaded on first use, so that suggestions for mistyped names do not import YAML.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.source.item import SourceItem
    from demur.source.reading import SourceError, read_source, read_text

__all__ = ["SourceError", "SourceItem", "read_source", "read_text"]

_HOMES = {
    "demur.source.item": ("SourceItem",),
    "demur.source.reading": ("SourceError", "read_source", "read_text"),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
