"""Judge each program that a script would start: its effects, its code, the programs inside it.

What cannot be known is reported: the name of a program, or the text that an interpreter gets. The
number of commands, characters and levels is bounded.
"""

import fnmatch
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    Arg,
    CommandHit,
    ProgramCall,
    Taint,
    Value,
    join_values,
    parse_options,
    program_name,
)
from demur.guards.code_execution.carriers import InnerCommand, unwrap_command
from demur.guards.code_execution.command_rules import check_command
from demur.guards.code_execution.context import (
    MAX_DEPTH,
    ORIGIN_RULES,
    CommandContext,
    LocatedHit,
    Location,
    Walker,
)
from demur.guards.code_execution.effects import (
    EffectKind,
    FileEffect,
    find_effects,
    rules_for_effect,
    sets_plain_variables,
)
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.launchers import (
    CodeLanguage,
    CodeToRun,
    find_code,
)
from demur.guards.code_execution.other_languages import read_other, read_prompt
from demur.guards.code_execution.outputs import predict_output, written_files
from demur.guards.code_execution.paths import (
    PathKind,
    WorkspaceBounds,
    canonical_path,
    classify_path,
    read_rule,
)
from demur.guards.code_execution.powershell import read_powershell
from demur.guards.code_execution.python_code import read_python
from demur.guards.code_execution.rules import COMMAND_RULES
from demur.guards.code_execution.shell_builtins import SILENT
from demur.guards.code_execution.shell_state import Readings, ShellState
from demur.guards.static.source_text import word_set
from demur.model.finding import Action

_MAX_STEPS = 2_000
_MAX_CHARACTERS = 400_000
_FLOWS = frozenset({"SECRET_SENT", "DATA_SENT", "WORK_SENT"})
_OWN_KINDS = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.STREAM})
SOCKETS = ("/dev/tcp/", "/dev/udp/")
_GLOB = frozenset("*?[")
_MAX_PROGRAMS = 100
# Programs whose scripts or options write files that no redirection names.
_WRITERS = word_set("sed gsed ed ex vi vim sort openssl xxd patch csplit")
_SETTERS = word_set("env sudo doas")
_FOLDER_OPTIONS = {"env": ("-C", "--chdir"), "sudo": ("-D", "--chdir")}
_SHEBANG = re.compile(r"#![ \t]*(\S+)[ \t]*([^\n]*)")
# A variable of the environment, by its name; the script does not set it.
_INHERITED = re.compile(r"\$(?:[A-Z][A-Z0-9_]*|[@*])")
_CODE_READERS = {
    CodeLanguage.PYTHON: read_python,
    CodeLanguage.POWERSHELL: read_powershell,
    CodeLanguage.CMD: read_prompt,
    CodeLanguage.OTHER: read_other,
}


def read_code(language: CodeLanguage, arg: Arg, walker: Walker, location: Location) -> None:
    """Judge `arg` as code in `language`."""
    if location.depth >= MAX_DEPTH:
        walker.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
    elif language is CodeLanguage.SHELL:
        walker.walk_shell(arg, location)
    else:
        _CODE_READERS[language](arg, walker, location)


class ProgramWalk(ABC):
    """Judges programs and collects the hits. A subclass walks through scripts."""

    def __init__(self, config: CommandConfig, bounds: WorkspaceBounds, cwd: str) -> None:
        self.config = config
        self.bounds = bounds
        self.state = ShellState(cwd)
        self.hits: list[LocatedHit] = []
        self.steps = 0
        self.characters = 0
        self.exhausted = False
        self.programs: list[str] = []

    @abstractmethod
    def walk_shell(self, arg: Arg, location: Location, stdin: Value = EMPTY) -> Value:
        """Walk through a text as a shell would, and return its output."""

    @abstractmethod
    def run_named(
        self, call: ProgramCall, start: int, end: int, location: Location
    ) -> tuple[Value, ...]:
        """Run a function, an alias or a program, by its name, and return its output."""

    @property
    def cwd(self) -> str:
        """The folder in which the next command would run."""
        return self.state.cwd

    def report(self, hit: CommandHit, start: int, end: int, verb: str, location: Location) -> None:
        """Report a hit at a span of the text of `location`."""
        is_note = location.guessed and COMMAND_RULES[hit.rule].action is Action.WARN
        if hit.rule not in self.config.off and not is_note:
            first, last = location.source.to_original(start, end)
            _, _, via, container, *_ = location
            self.hits.append(LocatedHit(hit, first, last, verb, via, container, location.guessed))

    def report_effect(
        self, effect: FileEffect, start: int, end: int, verb: str, location: Location
    ) -> None:
        """Report the rules that an effect on a file matches."""
        for hit in rules_for_effect(effect, self.state.cwd, self.bounds):
            if not (location.captured and hit.rule in {"SECRET_READ", "SECRET_NEAR"}):
                self.report(hit, start, end, verb, location)

    def record_write(self, path: str, value: Value) -> None:
        """Record the new content of a file."""
        self.state.write_file(path, value)

    def read_written(self, path: str) -> Value:
        """Return the content of a file that an earlier command wrote, or nothing."""
        return self.state.files.get(self.state.resolve_path(path), EMPTY)

    def budget_exceeded(self, call: ProgramCall, start: int, end: int, location: Location) -> bool:
        """Whether the budget of steps or characters is used up; reported once."""
        self.steps += 1
        self.characters += sum(len(arg.text) for arg in call.args)
        if self.steps <= _MAX_STEPS and self.characters <= _MAX_CHARACTERS:
            return False
        if not self.exhausted:
            self.report(CommandHit("NESTED_TOO_DEEP"), start, end, call.verb, location)
        self.exhausted = True
        return True

    def judge_program(self, call: ProgramCall, start: int, end: int, location: Location) -> Value:
        """Judge a program that is started directly, in each folder that it may start in."""
        state = self.state
        folders, missed = state.folders, state.missed_folders
        if len(folders) + len(missed) == 1:
            return self._judge_call(call, start, end, location)
        result = EMPTY
        after: list[str] = []
        for folder in (*folders, *missed):
            state.folders, state.missed_folders = (folder,), ()
            result = self._judge_call(call._replace(cwd=folder), start, end, location)
            after += state.folders if folder in folders else ()
        state.folders, state.missed_folders = tuple(dict.fromkeys(after)), missed
        return result

    def _judge_call(self, call: ProgramCall, start: int, end: int, location: Location) -> Value:
        """Judge a program in one folder, and return its output."""
        if self.budget_exceeded(call, start, end, location):
            return UNKNOWN
        if self._is_allowed(call, start, end, location):
            return predict_output(call, self.state)
        if not call.name.known and not _is_ordinary_name(call.name.text):
            name = call.name.text or "text of another command"
            self.report(CommandHit("COMMAND_UNKNOWN", name), start, end, "", location)
        taints = self._report_effects(call, start, end, location)
        if not _asks_for_help(call):
            context = CommandContext(self.config, self.bounds, self.state.files)
            for hit in check_command(call, context):
                flows = hit.rule in _FLOWS and call.stdin != EMPTY
                span = _pipeline_span(start, end, location) if flows else (start, end)
                self.report(hit, *span, call.verb, location)
            self._judge_code(call, start, end, location)
            self._judge_carried(call, end, location)
        result = EMPTY if call.verb in SILENT else predict_output(call, self.state)
        if taints:
            result = result._replace(taints=result.taints | taints)
        for path, value, append in written_files(call, result, self.state):
            self.state.write_file(path, value, append=append)
        return result

    def _judge_carried(self, call: ProgramCall, end: int, location: Location) -> None:
        """Judge the commands inside a call, in the folder and environment that it sets."""
        folders = self.state.folders
        if folder := _folder_option(call):
            self.state.folders = (self.state.resolve_path(folder.text),)
        before = self._set_environment(call)
        for inner in unwrap_command(call, self.state.files):
            self._judge_inner(inner, call, end, location)
        for name, old in before.items():
            self.state.variables[name] = old
        self.state.folders = folders if folder else self.state.folders

    def _set_environment(self, call: ProgramCall) -> dict[str, Readings]:
        """Set the variables of `env NAME=VALUE ...`; return their readings before."""
        before: dict[str, Readings] = {}
        for arg in call.args if call.verb in _SETTERS else ():
            name, equals, text = arg.text.partition("=")
            if equals and name.isidentifier():
                before.setdefault(name, self.state.read_variable(name))
                self.state.assign(name, arg.value._replace(text=text))
        return before

    def _is_allowed(self, call: ProgramCall, start: int, end: int, location: Location) -> bool:
        """Whether the settings allow this command by name; report it if they deny it."""
        if not self.config.allow and not self.config.deny:
            return False
        line = " ".join([call.name.text, *call.texts])
        if any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.deny):
            self.report(CommandHit("COMMAND_DENIED", call.verb), start, end, call.verb, location)
            return False
        return any(fnmatch.fnmatchcase(line, pattern) for pattern in self.config.allow)

    def _report_effects(
        self, call: ProgramCall, start: int, end: int, location: Location
    ) -> frozenset[Taint]:
        """Report the call's effects on files; return the origins that its output gets from them."""
        taints: frozenset[Taint] = frozenset()
        helps = _asks_for_help(call)
        for effect in find_effects(call):
            if helps and effect.kind is not EffectKind.WRITE:
                continue
            added = predict_output(call, self.state) if effect.append else UNKNOWN
            empty = effect.empty or (added.known and sets_plain_variables(added.text))
            self.report_effect(effect._replace(empty=empty), start, end, call.verb, location)
            if effect.kind is EffectKind.READ:
                taints |= self.file_origins(effect.target)
        return taints

    def file_origins(self, target: Arg) -> frozenset[Taint]:
        """Return the origins of a file's content, by its name."""
        path = canonical_path(target.text, self.state.cwd)
        if path.startswith(SOCKETS):
            return frozenset({Taint.DOWNLOAD})
        if read_rule(path):
            return frozenset({Taint.SECRET})
        if path in self.state.files:
            return self.state.files[path].taints
        own = classify_path(target.text, self.state.cwd, self.bounds) in _OWN_KINDS
        return frozenset() if own else frozenset({Taint.FILE})

    def _judge_code(self, call: ProgramCall, start: int, end: int, location: Location) -> None:
        """Judge the code that an interpreter gets, or a program that an earlier command wrote."""
        found = list(find_code(call))
        if call.verb in _WRITERS or any(code.text for code in found):
            self._note_writer(call)
        if call.verb in {"make", "gmake"}:
            found = list(self._written_recipes(call))
        if not found:
            found = list(self._written_programs(call))
        for code in found:
            from_input = code.text is None and code.file is None
            span = _pipeline_span(start, end, location) if from_input else (start, end)
            for arg in [code.text] if code.text else self._stored_code(code, call, *span):
                self._report_origin(arg, call.verb, span, location)
                inner = location._replace(via=(*location.via, call.verb))
                if arg.text:
                    self._read_code(code, arg, call, inner)
                if _is_open_text(arg) and not (arg.text and location.in_container):
                    what = "text" if code.text else "input" if from_input else "file"
                    self.report(CommandHit("INPUT_UNKNOWN", what), *span, call.verb, location)

    def _read_code(self, code: CodeToRun, arg: Arg, call: ProgramCall, location: Location) -> None:
        """Judge one text of code, in a shell of its own unless this one reads it."""
        words = tuple(each.value for each in code.operands) or (Value("sh"),)
        if code.language is not CodeLanguage.SHELL:
            read_code(code.language, arg, self, location)
        elif call.verb in {"source", "."}:
            before = self.state.positional
            self.state.positional = (words[1:],) if len(words) > 1 else before
            self.walk_shell(arg, location)
            self.state.positional = before
        else:
            exported = frozenset(name for name, _ in call.environment)
            stdin = call.stdin if code.text or code.file else EMPTY
            self.walk_apart(lambda: self.walk_shell(arg, location, stdin), exported, words)

    def walk_apart(
        self,
        walk: Callable[[], object],
        exported: frozenset[str] = frozenset(),
        words: tuple[Value, ...] = (Value("sh"),),
    ) -> None:
        """Walk in a shell that this one starts, with `words` as `$0` and so on.

        It leaves files behind and nothing else.
        """
        before = self.state
        self.state = before.enter_child(exported, words)
        walk()
        self.state = before

    def _written_programs(self, call: ProgramCall) -> list[CodeToRun]:
        """Return the code of a program that an earlier command wrote, by its path or its name."""
        if not self.state.files and not self.programs:
            return []
        if "/" in call.name.text and self._may_be_written(call.name.text):
            return [CodeToRun(CodeLanguage.SHELL, file=call.name)]
        names = self._written_paths(call.name.text, is_path="/" in call.name.text)
        if not names and "/" not in call.name.text:
            tail = f"/{call.name.text}"
            names = [path for path in self.state.files if path.endswith(tail)]
            names = names if self.state.variables.get("PATH") else []
        found = []
        for path in names:
            text = self.state.files[path].text
            file = call.name._replace(text=path, taints=frozenset())
            if match := _SHEBANG.match(text):
                # `env NAME` and other programs between are left to those who know them.
                words = [*match[0].removeprefix("#!").split(), path]
                args = tuple(call.name._replace(text=word, offset=None) for word in words[1:])
                verb = program_name(words[0])
                if verb == "env":
                    verb, args = program_name(words[1]), args[1:]
                started = call._replace(verb=verb, args=(*args, *call.args))
                found += list(find_code(started))
            else:
                operands = (file, *call.args)
                found.append(CodeToRun(CodeLanguage.SHELL, file=file, operands=operands))
        return found

    def _written_recipes(self, call: ProgramCall) -> Iterator[CodeToRun]:
        """Yield the recipes of a Makefile that an earlier command wrote."""
        options = parse_options(call.args, word_set("-f --file --makefile -C -j -I -o -W"))
        named = next((options.values[n] for n in ("-f", "--file") if n in options.values), None)
        names = [named.text] if named else ["GNUmakefile", "makefile", "Makefile"]
        for path in (path for name in names for path in self._written_paths(name)):
            content = self.state.files[path]
            lines = (line.lstrip("\t @-+") for line in content.text.split("\n") if line[:1] == "\t")
            text = call.name._replace(text="\n".join(lines), known=content.known, offset=None)
            yield CodeToRun(CodeLanguage.SHELL, text)

    def _written_paths(self, text: str, *, is_path: bool = True) -> list[str]:
        """Return the written files that a word names; a pattern may name several."""
        if not self.state.files:
            return []
        path = self.state.resolve_path(text)
        if path in self.state.files:
            return [path]
        if not _GLOB & set(text):
            # A folder may have been moved, copied, linked or packed since its file was written.
            tail = f"/{posixpath.basename(path)}"
            return [each for each in self.state.files if is_path and each.endswith(tail)]
        return [each for each in self.state.files if fnmatch.fnmatchcase(each, path)]

    def _report_origin(
        self, arg: Arg, verb: str, span: tuple[int, int], location: Location
    ) -> None:
        """Report code that was downloaded or decoded."""
        for taint, rule in ORIGIN_RULES.items() if arg.taints else ():
            if taint in arg.taints:
                self.report(CommandHit(rule, verb), *span, verb, location)

    def _stored_code(self, code: CodeToRun, call: ProgramCall, start: int, end: int) -> list[Arg]:
        """Return the code in a file or in the input, as far as it is known."""
        file = code.file
        values = []
        if file is None or file.text in {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}:
            values = [call.stdin]
        elif paths := self._written_paths(file.text):
            values = [self.state.files[path] for path in paths]
        elif self._may_be_written(file.text) or (self.state.files and _is_open_name(file)):
            values = [UNKNOWN]
        elif file.taints or file.text.startswith(SOCKETS):
            taints = file.taints | self.file_origins(file)
            values = [Value("", known=False, taints=taints)]
        return [Arg(value.text, start, end, *value[1:]) for value in values if value != EMPTY]

    def _note_writer(self, call: ProgramCall) -> None:
        """Remember the texts of a program that may write files that they name."""
        texts = [*call.texts, *([call.stdin.text] if call.verb in {"ed", "ex"} else [])]
        self.programs += texts[: _MAX_PROGRAMS - len(self.programs)]

    def _may_be_written(self, path: str) -> bool:
        """Whether a program of this script, such as `awk`, may have written a file."""
        name = posixpath.basename(path)
        return bool(name) and any(name in text for text in self.programs)

    def _judge_inner(
        self, inner: InnerCommand, call: ProgramCall, end: int, location: Location
    ) -> None:
        """Judge a command inside another one."""
        args = inner.args
        if not args:
            return
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), args[0].start, end, call.verb, location)
            return
        via = (*location.via, inner.via)
        in_container = location.in_container or inner.in_container
        deeper = location._replace(depth=location.depth + 1, via=via, in_container=in_container)
        deeper = deeper._replace(guessed=location.guessed or inner.guessed)
        if inner.script:
            whole = join_values([arg.value for arg in args], " ")
            arg = args[0] if len(args) == 1 else Arg(whole.text, args[0].start, end, *whole[1:])
            if inner.language is not CodeLanguage.SHELL:
                read_code(inner.language, arg, self, deeper)
            elif inner.via == "eval":
                self._judge_evaluated(arg, call, end, deeper)
            else:
                self.walk_apart(lambda: self._judge_evaluated(arg, call, end, deeper))
            return
        verb, name = program_name(args[0].text), args[0]
        started = call._replace(
            verb=verb, name=name, args=args[1:], via=via, writes=(), reads=(), environment=()
        )
        self.run_named(started, name.start, end, deeper)

    def _judge_evaluated(self, arg: Arg, call: ProgramCall, end: int, location: Location) -> None:
        """Judge a text that a program passes to a shell."""
        span = (call.name.start, end)
        if arg.text == _INPUT_ITEM:  # lines of the input, each run as it is
            arg = Arg("", arg.start, arg.end, known=False, taints=_external_taints(call.stdin))
        self._report_origin(arg, call.verb, span, location)
        if not arg.known and call.verb == "eval":
            is_explained = bool(arg.text or arg.taints & _EXPLAINED)
            rule = "EVAL_UNKNOWN" if is_explained else "INPUT_UNKNOWN"
            self.report(CommandHit(rule, call.verb), *span, call.verb, location)
        elif _is_open_text(arg) and not (arg.text and call.verb in _REMOTE_SHELLS):
            self.report(CommandHit("INPUT_UNKNOWN", call.verb), *span, call.verb, location)
        if arg.text:
            self.walk_shell(arg, location, call.stdin)


_INPUT_ITEM = "$input"  # the item of an input that is not known


def _external_taints(stdin: Value) -> frozenset[Taint]:
    """Return the origins of an input; without one it comes from files."""
    return stdin.taints | {Taint.EXTERNAL} if stdin == EMPTY else stdin.taints


# Text of these origins is reported by its origin, or is like a script on disk.
_EXPLAINED = frozenset({Taint.EXTERNAL, *ORIGIN_RULES})


# Their options may stand in variables, so that a host looks like a command.
_REMOTE_SHELLS = word_set("ssh autossh mosh pssh pdsh clush sshpass")
_OPEN_STATEMENT = re.compile(r"(?:^|[;&|\n])[ \t]*\$\w+[ \t]*(?:$|[;&|\n])")


def _is_open_text(arg: Arg) -> bool:
    """Whether code for an interpreter, or a whole statement of it, is not known."""
    is_open = not arg.text or _OPEN_STATEMENT.search(arg.text) is not None
    return is_open and not arg.known and not arg.taints & _EXPLAINED


def _is_ordinary_name(text: str) -> bool:
    """Whether the name of a program is not known, but follows a common convention.

    Its folder may be unknown (`$(npm bin)/eslint`), and variables of the environment may stand in
    it (`$EDITOR`, `python$VERSION`).
    """
    last = posixpath.basename(_INHERITED.sub("", text)) if text else "$"
    return "$" not in last and bool(last or _INHERITED.search(text))


def _is_open_name(file: Arg) -> bool:
    """Whether nothing of a file's name is known."""
    return not file.known and not posixpath.basename(file.text).partition("$")[0]


def _folder_option(call: ProgramCall) -> Arg | None:
    """Return the folder in which a program starts another one, if it names one."""
    names = _FOLDER_OPTIONS.get(call.verb, ())
    values = parse_options(call.args, frozenset(names)).values if names else {}
    return next((values[name] for name in names if name in values), None)


def _asks_for_help(call: ProgramCall) -> bool:
    """Whether a call only explains itself: `--help` before any operand."""
    for arg in call.args:
        if not arg.text.startswith("-") or arg.text in {"--help", "--version"}:
            return arg.text.startswith("-")
    return False


def _pipeline_span(start: int, end: int, location: Location) -> tuple[int, int]:
    """Return the span of the pipeline up to here."""
    return (location.pipe_start if location.pipe_start >= 0 else start), end
