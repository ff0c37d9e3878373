"""Find the texts of Python code that can reach a function by a way that is not a plain call.

A function that starts programs, runs code or deletes files may be passed on (`map(os.system, c)`),
looked up (`vars(os)[name]`) or given a value that only run time knows. Then nothing says which text
reaches it, so every constant text of the code is judged as if it did.
"""

import ast
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator

from demur.guards.static.python_flow import BindingCollector
from demur.guards.static.python_names import PythonNames
from demur.guards.static.python_syntax import parse_python
from demur.guards.static.source_text import word_set

# Modules that run the text or the command that they are given.
RUNNER_MODULES = word_set(
    "bdb cProfile code codeop doctest importlib pdb profile pydoc runpy timeit trace webbrowser"
    " cloudpickle dill distutils marshal multiprocessing pexpect pickle posix ctypes"
)
# Attributes by which code reaches what it does not name.
_HIDDEN_WAYS = word_set(
    "__globals__ __subclasses__ __builtins__ __reduce__ __reduce_ex__ __getattribute__ __dict__"
    " __import__ environ putenv modules methodcaller attrgetter"
)
_COMPARING = word_set(
    "startswith endswith split rsplit strip lstrip rstrip removeprefix removesuffix find rfind"
    " index rindex count"
)
_SPEAKERS = word_set("print log debug info warning error exception critical add_argument")
_MAX_TEXTS = 200
_MAX_TEXT_LENGTH = 20_000
_MAX_REACHED = 400
_MAX_VISITED = 100_000


def takes_hidden_ways(nodes: Iterable[ast.AST]) -> bool:
    """Whether code looks up functions by their names, or binds them to be called later."""
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.FunctionDef(name=name):
                if name in _HIDDEN_WAYS:
                    return True
            case ast.Call(func=ast.Name(id="vars" | "globals" | "locals" | "getattr")):
                return True
            case ast.Import(names=aliases):
                if any(alias.name.partition(".")[0] in RUNNER_MODULES for alias in aliases):
                    return True
            case ast.ImportFrom(module=str(module)):
                if module.partition(".")[0] in RUNNER_MODULES:
                    return True
            case _:
                pass
    return False


def constant_texts(tree: ast.AST, names: PythonNames) -> list[tuple[str, ast.expr]]:
    """Return the constant texts in code, each with its expression; lists are commands as well."""
    found: list[tuple[str, ast.expr]] = []
    stack: list[ast.AST] = [tree]
    while stack and len(found) < _MAX_TEXTS:
        node = stack.pop()
        if _only_speaks(node):
            continue
        folded = names.fold(node) if isinstance(node, ast.expr) else None
        if folded is not None and isinstance(node, ast.expr):
            found.extend((text, node) for text in _texts_of(folded.value))
        else:
            stack.extend(_whole_parts(node, names))
    return found


def _whole_parts(node: ast.AST, names: PythonNames) -> Iterator[ast.AST]:
    """Yield the parts of a node, but not the constant pieces of a text that is known in part."""
    joined = isinstance(node, ast.BinOp | ast.JoinedStr) or (
        isinstance(node, ast.Call) and names.dotted_path(node.func) == "os.path.join"
    )
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Constant) and _only_compares(node, part):
            continue
        if not (joined and isinstance(part, ast.expr) and names.fold(part)):
            yield part


def _only_compares(node: ast.AST, constant: ast.Constant) -> bool:
    """Whether a constant is only compared with a text, or separates the parts of one."""
    match node:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Attribute(attr=name)) if name in _COMPARING:
            return True
        case ast.Call(func=ast.Attribute(attr="replace" | "partition" | "rpartition")):
            return constant.value == "/"  # longer texts may be in the result
        case ast.Attribute(attr="join"):
            return constant.value == "/"
        case _:
            return False


def _only_speaks(node: ast.AST) -> bool:
    """Whether a node only documents or prints a text."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=words):
            return name in _SPEAKERS and not any(word.arg == "file" for word in words)
        case _:
            return False


def _texts_of(value: object) -> Iterator[str]:
    match value:
        case bytes():
            yield value.decode("latin-1")[:_MAX_TEXT_LENGTH]
        case str():
            yield value[:_MAX_TEXT_LENGTH]
        case list():
            words = [word for word in value if isinstance(word, str)]
            if len(words) > 1:
                yield shlex.join(words)[:_MAX_TEXT_LENGTH]
            yield from words
        case dict():
            yield from (text for text in value.values() if isinstance(text, str))
        case _:
            pass


def is_command(text: str) -> bool:
    """Whether a text may be a command line: more than one word, and no prose by its length."""
    return len(text) < 2_000 and len(text.split(maxsplit=2)) > 1


def is_code(text: str) -> bool:
    """Whether a text is Python that calls something."""
    tree = parse_python(text) if "(" in text else None
    return tree is not None and any(isinstance(node, ast.Call) for node in ast.walk(tree))


class PythonReach:
    """The expressions that a name may stand for, by assignments, loops, arguments and returns."""

    def __init__(self, tree: ast.Module) -> None:
        self._budget = _MAX_VISITED
        self._sources: dict[str, list[ast.expr]] = defaultdict(list)
        for (scope, name), value in BindingCollector().collect_bindings(tree):
            function = scope.rpartition("/")[2].partition(":")[0]
            self._sources[function if name == "return" else name.lstrip(".")].append(value)
        parameters: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
                for name, value in zip(names[::-1], node.args.defaults[::-1], strict=False):
                    self._sources[name].append(value)
                if not isinstance(node, ast.Lambda):
                    parameters[node.name] = names
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                self._bind_arguments(node, parameters)

    def _bind_arguments(self, node: ast.Call, parameters: dict[str, list[str]]) -> None:
        match node.func:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names = parameters.get(name, [])
            case ast.Lambda(args=inside):
                names = [arg.arg for arg in inside.args]
            case _:
                names = []
        for name in names:
            self._sources[name].extend(node.args)
            self._sources[name].extend(word.value for word in node.keywords if word.arg == name)

    def reached_from(self, roots: Iterable[ast.expr]) -> Iterator[ast.expr]:
        """Yield `roots` and the expressions that their names may stand for."""
        stack, seen = list(roots), set[int]()
        while stack and len(seen) < _MAX_REACHED and self._budget > 0:
            root = stack.pop()
            if id(root) in seen:
                continue
            seen.add(id(root))
            yield root
            for node in ast.walk(root):
                self._budget -= 1
                match node:
                    case ast.Name(id=name) | ast.Attribute(attr=name):
                        stack.extend(self._sources.get(name, ()))
                    case _:
                        pass

    def reaches_constants(self, roots: list[ast.expr]) -> bool:
        """Whether `roots` stand for constants of this code and nothing else."""
        for root in self.reached_from(roots):
            for node in ast.walk(root):
                match node:
                    case ast.Name(id=name, ctx=ast.Load()) if name not in self._sources:
                        return False
                    case ast.Call() | ast.Attribute() | ast.Await() | ast.Lambda():
                        return False
                    case _:
                        pass
        return self._budget > 0
