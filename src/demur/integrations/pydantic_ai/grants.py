"""The grants that come with an approval."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from demur.errors import GrantError
from demur.model.grant import Grant

__all__ = ["parse_metadata_grants"]


def parse_metadata_grants(metadata: Any) -> list[Grant]:
    """Return the grants in the metadata of an approval; skip anything else."""
    given = metadata if isinstance(metadata, Mapping) else {}
    more = given.get("grants")
    listed = [given.get("grant"), *(more if isinstance(more, list | tuple) else ())]
    grants = []
    for one in listed:
        with suppress(msgspec.MsgspecError, GrantError):
            if isinstance(one, str | bytes):
                grants.append(Grant.from_json(one))
            else:
                grants.append(one if isinstance(one, Grant) else msgspec.convert(one, Grant))
    return grants
