"""A baseline: what was seen and accepted before, so that a report shows what is new.

It stands outside the skill and belongs to whoever trusts it. A finding is known by its
file, rule and the lines it stands on, not by their number: it survives lines that are added
elsewhere, and no longer counts once its own lines change.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from demur.errors import InputError
from demur.model.finding import Finding

__all__ = ["BASELINE_SCHEMA", "compute_fingerprint", "read_baseline", "write_baseline"]

BASELINE_SCHEMA = "skill_baseline.v1"
_FINGERPRINT_LENGTH = 32


def compute_fingerprint(path: str, rule: str, code: str, lines: str, number: int) -> str:
    """Return the identity of a finding; `number` separates identical ones."""
    # INVARIANT: a fingerprint does not depend on the number of a line.
    text = "\0".join((path, rule, code, " ".join(lines.split()), str(number)))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT_LENGTH]


def write_baseline(findings: Iterable[Finding]) -> str:
    """Return the text of a baseline file that accepts all `findings`."""
    rows = [
        {
            "fingerprint": finding.evidence["fingerprint"],
            "code": finding.code,
            "rule": finding.evidence["rule"],
            "file": finding.evidence["file"],
            "detail": finding.detail,
        }
        for finding in findings
    ]
    rows.sort(key=lambda row: (row["file"], row["rule"], row["fingerprint"]))
    head: Mapping[str, Any] = {"schema_version": BASELINE_SCHEMA, "findings": rows}
    return json.dumps(head, indent=2, ensure_ascii=False) + "\n"


def read_baseline(text: str) -> frozenset[str]:
    """Return the fingerprints that a baseline accepts.

    Raises:
        InputError: `text` is not a baseline.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("the baseline is not JSON", help=_BASELINE_HELP) from error
    if not isinstance(data, dict) or data.get("schema_version") != BASELINE_SCHEMA:
        raise InputError(
            f"the baseline has no schema_version `{BASELINE_SCHEMA}`", help=_BASELINE_HELP
        )
    rows = data.get("findings")
    if not isinstance(rows, list):
        raise InputError("the baseline has no list of findings", help=_BASELINE_HELP)
    marks = [row.get("fingerprint") if isinstance(row, dict) else None for row in rows]
    known = frozenset(mark for mark in marks if isinstance(mark, str))
    if not all(isinstance(mark, str) for mark in marks):
        raise InputError("a finding in the baseline has no fingerprint", help=_BASELINE_HELP)
    return known


_BASELINE_HELP = "create one with `--write-baseline`"
