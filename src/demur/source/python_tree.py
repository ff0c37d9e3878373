"""Parse Python, also where the interpreter miscounts."""

import ast

__all__ = ["parse_tree"]


def parse_tree(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a module, as `ast.parse` does.

    CPython before 3.11.8 and 3.12.2 raises a `SystemError` if a finalizer parses something
    meanwhile, as the log of a lost exception does. The second attempt finds nothing to finalize.
    """
    try:
        return ast.parse(source)
    except SystemError:
        return ast.parse(source)
