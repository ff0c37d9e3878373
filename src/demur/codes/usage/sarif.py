"""Misused codes as SARIF 2.1.0, the form that code-review tools read."""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from demur.codes.usage.lint import CodeMisuse
from demur.codes.usage.rules import CODE_RULES, CodeLintRule

__all__ = ["lint_to_sarif"]

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULE_INDEXES = {rule: index for index, rule in enumerate(CODE_RULES)}


def lint_to_sarif(usages: Iterable[CodeMisuse]) -> dict[str, object]:
    """Return the usages as a SARIF log of one run, with every rule described."""
    rules = [_sarif_rule(rule) for rule in CODE_RULES.values()]
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "demur codes lint", "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "results": [_sarif_result(usage) for usage in usages],
            }
        ],
    }


def _sarif_rule(rule: CodeLintRule) -> dict[str, object]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": rule.level},
    }


def _sarif_result(usage: CodeMisuse) -> dict[str, object]:
    region = {"startLine": usage.line, "startColumn": usage.column}
    return {
        "ruleId": usage.rule,
        "ruleIndex": _RULE_INDEXES[usage.rule],
        "level": usage.severity,
        "message": {"text": f"{usage.message}\nhelp: {usage.help}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _relative_uri(usage.path)},
                    "region": region,
                }
            }
        ],
    }


def _relative_uri(path: str) -> str:
    """Return a relative path as a relative reference, so that it means the same elsewhere."""
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(os.fsencode(place.as_posix()))
