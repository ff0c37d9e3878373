"""Where Python and Perl find their code: option clusters, modules, profilers, files and input."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from demur.guards.code_execution.call import Arg, ProgramCall
from demur.guards.static.source_text import word_set


class InterpreterCode(NamedTuple):
    """Code as a text, or in a file, or (without either) in the input."""

    text: Arg | None = None
    file: Arg | None = None


_ENDS = word_set("--version -V -VV --help -h -?")
_PYTHON_CODE = re.compile(r"-[bBdEiIOPqsSuvx]*c(.*)", re.DOTALL)
_PYTHON_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_PYTHON_VALUED = word_set("-W -X --check-hash-based-pycs")
# Modules that run the file or the module behind their own options.
_RUNNERS = word_set("cProfile profile trace pdb runpy coverage kernprof line_profiler viztracer")
_RUNNER_VALUED = word_set("-o -s -C -c --coverdir --sort --file -f")


def find_python_code(call: ProgramCall) -> Iterator[InterpreterCode]:
    """Yield the code that a call of Python runs."""
    for name, value in call.environment:
        if name == "PYTHONSTARTUP":
            yield InterpreterCode(file=call.name._replace(text=value.text, offset=None))
    args = call.args
    index = 0
    while index < len(args):
        text = args[index].text
        if text in _ENDS:
            return
        for form, finder in ((_PYTHON_CODE, _option_code), (_PYTHON_MODULE, _module_code)):
            if not text.startswith("--") and (match := form.fullmatch(text)):
                yield from finder(args, index, match[1])
                return
        if text == "-" or not text.startswith("-"):
            break
        index += 2 if text in _PYTHON_VALUED else 1
    rest = args[index:]
    if not rest or rest[0].text == "-":
        yield InterpreterCode()
    else:
        yield from _file_code(rest[0])


def _option_code(args: tuple[Arg, ...], index: int, glued: str) -> Iterator[InterpreterCode]:
    if glued:
        yield InterpreterCode(args[index]._replace(text=glued, offset=None))
    else:
        yield from (InterpreterCode(arg) for arg in args[index + 1 : index + 2])


def _module_code(args: tuple[Arg, ...], index: int, glued: str) -> Iterator[InterpreterCode]:
    """`-m timeit CODE`, `-m cProfile FILE`, `-m MODULE`."""
    words = args[index + 1 :]
    if glued:
        words = (args[index]._replace(text=glued, offset=None), *words)
    if not words:
        return
    module, *rest = words
    if module.text == "timeit":
        yield from (InterpreterCode(arg) for arg in rest if not arg.text.startswith("-"))
    elif module.text in _RUNNERS:
        yield from _runner_code(rest)
    else:
        path = module.text.replace(".", "/")
        yield InterpreterCode(file=module._replace(text=f"{path}.py", offset=None))
        yield InterpreterCode(file=module._replace(text=f"{path}/__main__.py", offset=None))


def _runner_code(args: list[Arg]) -> Iterator[InterpreterCode]:
    rest = iter(args)
    for arg in rest:
        if arg.text in {"-m", "--module"}:
            yield from _module_code((arg, *rest), 0, "")
            return
        if arg.text in _RUNNER_VALUED:
            next(rest, None)
        elif not arg.text.startswith("-") and arg.text != "run":
            yield from _file_code(arg)
            yield InterpreterCode(file=arg._replace(text=f"{arg.text}.py", offset=None))
            return


def _file_code(arg: Arg) -> Iterator[InterpreterCode]:
    yield InterpreterCode(file=arg)
    if not arg.text.endswith(".py") and not arg.text.startswith("/dev/"):
        inside = f"{arg.text.rstrip('/')}/__main__.py"
        yield InterpreterCode(file=arg._replace(text=inside, offset=None))


# Letters of Perl's option clusters that take the rest of their word, or digits.
_PERL_CLUSTER = re.compile(r"-(?:0(?:x[\dA-Fa-f]+|[0-7]*)|l[0-7]*|[acfgnpsStTuUvwWX])*")
_PERL_MODULE = re.compile(r"-[Mm]-?([\w:]+)")


def find_perl_code(call: ProgramCall) -> Iterator[InterpreterCode]:
    """Yield the code that a call of Perl runs: each `-e`, loaded modules, a file, or the input."""
    found = False
    options = [value.text for name, value in call.environment if name == "PERL5OPT"]
    for text in " ".join(options).split():
        yield from _perl_module(call.name._replace(text=text, offset=None))
    args = iter(call.args)
    for arg in args:
        text = arg.text
        if text in _ENDS:
            return
        yield from _perl_module(arg)
        if text == "-I":
            next(args, None)
        elif text.startswith("-") and len(text) > 1:
            match = _PERL_CLUSTER.match(text)
            rest = text[match.end() :] if match else ""
            if rest[:1] in {"e", "E"}:
                found = True
                code = arg._replace(text=rest[1:], offset=None) if rest[1:] else next(args, None)
                yield from (InterpreterCode(each) for each in [code] if each is not None)
        elif not found:
            yield InterpreterCode() if text == "-" else InterpreterCode(file=arg)
            return
    if not found:
        yield InterpreterCode()


def _perl_module(arg: Arg) -> Iterator[InterpreterCode]:
    if module := _PERL_MODULE.match(arg.text):
        path = module[1].replace("::", "/")
        yield InterpreterCode(file=arg._replace(text=f"{path}.pm", offset=None))
