"""Evaluate the arithmetic of a shell as far as its numbers are known."""

import ast
import operator
import re
from collections.abc import Callable

from demur.guards.code_execution.call import Arg, Value
from demur.guards.code_execution.shell_state import ShellState, texts_of

_FORM = re.compile(r"[\w\s+*/%()<>&|^~$-]{1,80}")
_NAME = re.compile(r"\$?\b([A-Za-z_]\w*)\b")
_BASED = re.compile(r"\b0([0-7]+)\b")
_MAX_NUMBER = 2**63
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


def evaluate_arithmetic(arg: Arg, state: ShellState) -> Value:
    """Return the number that `arg` evaluates to; a zero that is not known if that is open."""
    unknown = Value("0", known=False, taints=arg.taints)
    if not arg.known or not _FORM.fullmatch(arg.text):
        return unknown
    text = _BASED.sub(r"0o\1", _NAME.sub(lambda match: _read_number(match[1], state), arg.text))
    try:
        tree = ast.parse(text.strip().replace("/", "//"), mode="eval")
        return Value(str(_evaluate(tree.body)), taints=arg.taints)
    except (SyntaxError, ValueError, ArithmeticError):
        return unknown


def _read_number(name: str, state: ShellState) -> str:
    """Return the number that a variable holds, if there is one reading of it."""
    texts = list(texts_of(state.read_variable(name)))
    sure = len(texts) == 1 and texts[0].known and texts[0].text.isdigit()
    return texts[0].text if sure else name


def _evaluate(node: ast.expr) -> int:
    """Return the value of an expression of numbers.

    Raises:
        ValueError: It holds something else, or grows too large.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and (operation := _OPERATIONS.get(type(node.op))):
        result = operation(_evaluate(node.left), _evaluate(node.right))
        if abs(result) < _MAX_NUMBER:
            return result
    raise ValueError("not a number")
