"""What a search finds, as patterns below the folders in which it looks."""

from itertools import pairwise

from demur.guards.code_execution.call import ProgramCall
from demur.guards.code_execution.names import split_names
from demur.guards.code_execution.value import CommandArg

__all__ = ["find_targets"]

_BY_NAME = frozenset(split_names("-name -iname -path -ipath -wholename -regex"))
_FILTERS = frozenset(
    split_names("-type -mtime -mmin -size -empty -newer -user -perm -atime -ctime -group -links")
)


def find_targets(call: ProgramCall) -> list[CommandArg]:
    """Return the targets of `find` as patterns: `./*.log` for `find . -name '*.log'`."""
    texts = call.texts
    ends = (at for at, text in enumerate(texts) if text.startswith(("-", "(", "!", "\\")))
    roots = call.args[: next(ends, len(texts))] or (call.name._replace(text="."),)
    patterns = [
        following.rpartition("/")[2] for text, following in pairwise(texts) if text in _BY_NAME
    ]
    filtered = any(text in _FILTERS for text in texts)
    name = patterns[0] if patterns else ("*.*?" if filtered else "*")
    return [root._replace(text=f"{root.text.rstrip('/')}/{name}", offset=None) for root in roots]
