"""Documents that people write: YAML whose values know where they stand.

Names are loaded when first used, so that a guess at a mistyped name needs no YAML.
"""

from typing import TYPE_CHECKING

from demur.source.lazy import lazy_names

if TYPE_CHECKING:
    from demur.source.item import Item
    from demur.source.reading import SourceError, read_source, read_text

__all__ = ["Item", "SourceError", "read_source", "read_text"]

_HOMES = {
    "demur.source.item": ("Item",),
    "demur.source.reading": ("SourceError", "read_source", "read_text"),
}
__getattr__, __dir__ = lazy_names(globals(), _HOMES)
