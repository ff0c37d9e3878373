"""The scan of skills: its inputs are the files of a skill, settings, and accepted findings.

The caller reads the folder. Files that it could not or would not read stand in `omitted`, so that
nobody takes an unread file for a clean one. A baseline is kept outside the skill, by the person who
trusts it. It identifies a finding by its file, rule and lines, not by line numbers: the finding
survives lines that are added elsewhere, and counts as new once its own lines change.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from demur.errors import InputError
from demur.model.finding import Action, Finding


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A folder's files by relative path, with `/` between the parts."""

    files: Mapping[str, bytes]
    name: str = ""
    # Path -> why it was not read.
    omitted: Mapping[str, str] = {}


class SkillConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a scan.

    `allow_imports`: modules that may be imported, with their submodules. `allow_hosts`: hosts
    that may be reached, with their subdomains. `actions`: replaces the action of a rule, by its
    id. `trust_comments`: whether comments by the skill's author may allow findings below a block.
    """

    allow_imports: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    actions: Mapping[str, Action] = {}
    trust_comments: bool = True

    def allows_import(self, module: str) -> bool:
        """Return whether the settings allow importing `module`."""
        return any(f"{module}.".startswith(f"{name}.") for name in self.allow_imports)

    def allows_host(self, host: str) -> bool:
        """Return whether the settings allow reaching `host`."""
        return any(f".{host}".endswith(f".{name}") for name in self.allow_hosts)


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
        problem = f"the baseline has no schema_version `{BASELINE_SCHEMA}`"
        raise InputError(problem, help=_BASELINE_HELP)
    rows = data.get("findings")
    if not isinstance(rows, list):
        raise InputError("the baseline has no list of findings", help=_BASELINE_HELP)
    marks = [row.get("fingerprint") if isinstance(row, dict) else None for row in rows]
    if not all(isinstance(mark, str) for mark in marks):
        raise InputError("a finding in the baseline has no fingerprint", help=_BASELINE_HELP)
    return frozenset(map(str, marks))


_BASELINE_HELP = "create one with `--write-baseline`"
