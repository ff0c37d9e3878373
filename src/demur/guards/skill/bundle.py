"""The event of the surface `skill`: the files of one folder as bytes, and what to make of them.

Reading the folder is the caller's part. What it could not or would not read stands in
`omitted`, so that a part that nobody looked at is not taken for a part that is clean.
"""

from collections.abc import Mapping

import msgspec

from demur.codes.vocabulary import Surface
from demur.model.finding import Action

__all__ = ["SURFACE", "Skill", "SkillConfig"]

SURFACE = Surface.SKILL


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
