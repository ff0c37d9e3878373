"""A whole registry as one text: the core and every organisation's file, to be read back as one.

A record names the registry it was decided under by the digest of this text, and a pack
carries the text itself, so a decision can be made again where those files are not at hand.
"""

import json
from typing import Any

from demur.codes.document import SCHEMA_VERSION, RegistryDocument, read_document
from demur.codes.registry import Registry
from demur.errors import RegistryError

__all__ = ["bundle_registry", "parse_bundle"]

BUNDLE_VERSION = "registry_bundle.v1"


def bundle_registry(registry: Registry) -> str:
    """Return the registry as one text; the same registry always gives the same text."""
    core, organisations = registry.documents
    content = {
        "schema_version": BUNDLE_VERSION,
        "core": _document_json(core),
        "organisations": [_document_json(document) for document in organisations],
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def parse_bundle(text: str, name: str = "registry") -> Registry:
    """Return the registry in a bundle, checked like any other.

    Raises:
        RegistryError: The text is not a bundle, or its registry breaks a rule.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RegistryError("not JSON", where=name) from error
    wanted = {"schema_version", "core", "organisations"}
    if not isinstance(content, dict) or set(content) != wanted:
        raise RegistryError("a bundle holds a core and organisations", where=name)
    if content["schema_version"] != BUNDLE_VERSION:
        known = f"this is {BUNDLE_VERSION}"
        raise RegistryError("unknown schema version", where=f"{name}: schema_version", help=known)
    if not isinstance(content["organisations"], list):
        raise RegistryError("must be a list", where=f"{name}: organisations")
    core = read_document(f"{name}: core", json.dumps(content["core"]))
    organisations = [
        read_document(f"{name}: organisations[{index}]", json.dumps(document))
        for index, document in enumerate(content["organisations"])
    ]
    return Registry(core, organisations)


def _document_json(document: RegistryDocument) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "version": document.version,
        "domain": document.domain,
        "min_core": document.min_core,
        "phrases": dict(document.phrases),
        "codes": [dict(row.fields) for row in document.rows],
    }
    return {key: value for key, value in fields.items() if value is not None and value != {}}
