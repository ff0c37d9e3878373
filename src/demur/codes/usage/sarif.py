"""Misused codes as SARIF 2.1.0, the form that code-review tools read."""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from demur.codes.usage.lint import Usage
from demur.codes.usage.rules import RULES, Rule

__all__ = ["as_sarif"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PLACES = {rule: index for index, rule in enumerate(RULES)}


def as_sarif(usages: Iterable[Usage]) -> dict[str, object]:
    """Return the usages as a SARIF log of one run, with every rule described."""
    rules = [_rule(rule) for rule in RULES.values()]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "demur codes lint", "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(usage) for usage in usages],
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    }


def _result(usage: Usage) -> dict[str, object]:
    region = {"startLine": usage.line, "startColumn": usage.column}
    return {
        "ruleId": usage.rule,
        "ruleIndex": _PLACES[usage.rule],
        "level": usage.severity,
        "message": {"text": f"{usage.message}\nhelp: {usage.help}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(usage.path)},
                    "region": region,
                }
            }
        ],
    }


def _uri(path: str) -> str:
    """Return a relative path as a relative reference, so that it means the same elsewhere."""
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(os.fsencode(place.as_posix()))
