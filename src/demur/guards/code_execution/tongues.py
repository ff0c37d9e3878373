"""Hands code to the reader of its language."""

from demur.guards.code_execution.call import CommandHit
from demur.guards.code_execution.host import MAX_DEPTH, CodeLocation, Walker
from demur.guards.code_execution.interpreters import CodeLanguage
from demur.guards.code_execution.other_code import read_other
from demur.guards.code_execution.powershell import read_powershell
from demur.guards.code_execution.prompt import read_prompt
from demur.guards.code_execution.python_code import read_python
from demur.guards.code_execution.value import CommandArg

__all__ = ["read_code"]

_CODE_READERS = {
    CodeLanguage.PYTHON: read_python,
    CodeLanguage.POWERSHELL: read_powershell,
    CodeLanguage.CMD: read_prompt,
    CodeLanguage.OTHER: read_other,
}


def read_code(
    language: CodeLanguage, arg: CommandArg, walker: Walker, location: CodeLocation
) -> None:
    """Judge `arg` as code in `language`."""
    if location.depth >= MAX_DEPTH:
        walker.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
    elif language is CodeLanguage.SHELL:
        walker.walk_shell(arg, location)
    else:
        _CODE_READERS[language](arg, walker, location)
