"""Export findings as SARIF 2.1.0 for code-review tools.

Each code that was found is a rule of the log, described as in the registry's own export. The
guard's narrower rule is in the properties of a result.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from demur.codes.export_data import render_sarif as registry_log
from demur.codes.registry import Registry
from demur.model.finding import Action, Finding

__all__ = ["to_sarif"]

_LEVELS = {Action.BLOCK: "error", Action.ESCALATE: "warning", Action.WARN: "note"}
_FINGERPRINT = "demurFinding/v1"


def to_sarif(
    findings: Iterable[Finding],
    *,
    registry: Registry,
    suppressed: Iterable[tuple[Finding, str]] = (),
    artifact: str | None = None,
) -> dict[str, Any]:
    """Return the findings as a SARIF log of one run.

    A finding's file is in its evidence; `artifact` names the text of those that have none.
    `suppressed` holds findings that their source allows, each with the reason given there.
    """
    kept = [(finding, None) for finding in findings]
    rows: list[tuple[Finding, str | None]] = [*kept, *suppressed]
    log: dict[str, Any] = json.loads(registry_log(registry))
    described = {taxon["id"]: taxon for taxon in log["runs"][0]["taxonomies"][0]["taxa"]}
    codes = sorted({finding.code for finding, _ in rows})
    # Relationships refer to taxonomies that this log does not carry.
    rules = [{**described[code], "id": code} for code in codes]
    for rule in rules:
        rule.pop("relationships", None)
    driver = {"name": "demur guard", "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, codes, reason, artifact) for finding, reason in rows],
    }
    return {"$schema": log["$schema"], "version": log["version"], "runs": [run]}


def _sarif_result(
    finding: Finding, codes: Sequence[str], reason: str | None, artifact: str | None
) -> dict[str, Any]:
    evidence = finding.evidence
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.action],
        "message": {"text": finding.detail or finding.code},
        "properties": {
            "action": str(finding.action),
            "surface": str(finding.surface),
            **{key: evidence[key] for key in ("rule", "via") if key in evidence},
        },
    }
    file = evidence.get("file", artifact)
    if file is not None:
        uri = quote(str(file).encode("utf-8", "surrogateescape"))
        location = {"artifactLocation": {"uri": uri}, "region": _sarif_region(finding)}
        result["locations"] = [{"physicalLocation": location}]
    if "fingerprint" in evidence:
        result["partialFingerprints"] = {_FINGERPRINT: evidence["fingerprint"]}
    if reason is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": reason}]
    return result


def _sarif_region(finding: Finding) -> dict[str, int]:
    region: dict[str, int] = {}
    if "line" in finding.evidence:
        evidence = finding.evidence
        region |= {"startLine": evidence["line"], "startColumn": evidence.get("column", 1)}
    if finding.span is not None:
        length = finding.span.end - finding.span.start
        region |= {"charOffset": finding.span.start, "charLength": length}
    return region or {"startLine": 1}
