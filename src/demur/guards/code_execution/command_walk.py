"""Walk through one simple command: expand its words, follow its redirections, run it.

A command with several readings is run once for each, and the state after it keeps them all.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    UNKNOWN_PLACEHOLDER,
    Arg,
    CommandHit,
    ProgramCall,
    Taint,
    Value,
    WrittenFile,
    join_values,
    program_name,
)
from demur.guards.code_execution.context import MAX_DEPTH, Location
from demur.guards.code_execution.effects import EffectKind, FileEffect
from demur.guards.code_execution.event import CommandConfig
from demur.guards.code_execution.expand import expand_text, expand_unsplit, expand_word
from demur.guards.code_execution.paths import PathKind, WorkspaceBounds, classify_path
from demur.guards.code_execution.program_walk import SOCKETS, ProgramWalk
from demur.guards.code_execution.shell_builtins import (
    BUILTINS,
    DECLARING,
    FOLDER_CHANGES,
    LEAVING,
    change_folder,
)
from demur.guards.code_execution.shell_state import (
    ANY_TEXT,
    MAX_READINGS,
    Readings,
    ShellState,
    bound_readings,
    combine_readings,
    texts_of,
)
from demur.guards.static.shell_words import (
    CompoundCommand,
    PieceKind,
    ShellAssignment,
    ShellRedirect,
    ShellScript,
    ShellWord,
    SimpleCommand,
    WordPiece,
)
from demur.guards.static.source_text import word_set

_MAX_COMMAND_READINGS = 32
_MAX_TRIED_READINGS = 64
# Programs that only test or print: too many readings of their arguments are no question.
_HARMLESS = word_set("[ [[ : basename dirname echo expr false grep printf return test true wc")
_OUTPUTS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_INPUTS = frozenset({"<<", "<<-", "<<<", "<", "<&"})
_ADDING = frozenset({">>", "&>>"})
_TRANSPARENT = frozenset({"builtin", "command"})
_OWN_WORKSPACE = frozenset({PathKind.INSIDE, PathKind.WORKSPACE_ITSELF, PathKind.SCRATCH})
_FIRST_PROCESS = 63
# The outputs that a command may have; one unless readings differ.
Outputs = tuple[Value, ...]
SILENCE: Outputs = (EMPTY,)


def join_outputs(first: Outputs, second: Outputs) -> Outputs:
    """Return each output of the first followed by each of the second."""
    if first == SILENCE:
        return second
    if second == SILENCE:
        return first
    if len(first) == len(second) == 1:
        return (_join_output(first[0], second[0]),)
    return bound_readings((_join_output(one, two) for one in first for two in second), UNKNOWN)


def _join_output(first: Value, second: Value) -> Value:
    if EMPTY in (first, second):
        return second if first == EMPTY else first
    if not second.text and first.text.endswith(UNKNOWN_PLACEHOLDER):
        return first._replace(taints=first.taints | second.taints)  # one unknown part says it all
    return join_values([first, second], "" if first.known and second.known else "\n")


class CommandWalk(ProgramWalk):
    """Walks through simple commands. `failure` is the state if the last command failed."""

    def __init__(self, config: CommandConfig, bounds: WorkspaceBounds, cwd: str) -> None:
        super().__init__(config, bounds, cwd)
        self.failure: ShellState | None = None
        self.left: list[list[ShellState]] = []
        self.sinks: list[tuple[str, ShellScript, Location]] = []
        self.processes = 0
        self.input: Outputs = SILENCE
        self.expanding: frozenset[str] = frozenset()

    @abstractmethod
    def walk_text(self, arg: Arg, location: Location, stdin: Outputs) -> Outputs:
        """Walk through a text as a shell would, and return its outputs."""

    @abstractmethod
    def walk_script(
        self, script: ShellScript, location: Location, stdin: Outputs = SILENCE
    ) -> Outputs:
        """Walk through `script`, and return its whole output."""

    # Ways through the script, and the state behind them.

    def settle(self) -> None:
        """Merge the states of success and failure, where the script goes on after either."""
        failure, self.failure = self.failure, None
        if failure is not None and not self.state.exits_on_error:
            self.state = self.state.merge_state(failure)

    def take_ways(self, ways: Sequence[Callable[[], Outputs]]) -> Outputs:
        """Walk each of `ways` from the present state, and keep the readings of all."""
        if len(ways) == 1:
            return ways[0]()
        before = self.state
        outputs: list[Value] = []
        ends: list[ShellState] = []
        failures: list[ShellState] = []
        for way in ways:
            self.state, self.failure = before.copy_state(), None
            outputs += way()
            ends.append(self.state)
            failures.append(self.failed_state())
        self.state = reduce(ShellState.merge_state, ends)
        failure = reduce(ShellState.merge_state, failures)
        self.failure = None if failure.is_same(self.state) else failure
        return bound_readings(outputs, UNKNOWN)

    def failed_state(self) -> ShellState:
        """Return the state if the last command failed."""
        return self.failure if self.failure is not None else self.state

    def take_failure(self) -> ShellState:
        """Return a state of its own for the failure of the last command, and forget it."""
        failure, self.failure = self.failure, None
        return self.state.copy_state() if failure is None else failure

    def walk_subshell(self, walk: Callable[[], Outputs], location: Location) -> Outputs:
        """Walk in a subshell: it leaves files behind and nothing else."""
        before = self.state
        self.state = before.copy_state(share_files=True)
        self.state.traps = ()
        outputs = walk()
        self.settle()
        self.run_traps(location)
        self.state, self.failure = before, None
        return outputs

    def run_traps(self, location: Location) -> None:
        """Walk through the traps once more, with the state at the end."""
        traps, self.state.traps = self.state.traps, ()
        for trap in traps:
            if location.depth < MAX_DEPTH and trap.text:
                self.walk_shell(trap, location._replace(depth=location.depth + 1))

    def walk_checked(self, walk: Callable[[], Outputs]) -> Outputs:
        """Walk a condition: its failure does not end the script."""
        exits, self.state.exits_on_error = self.state.exits_on_error, False
        outputs = walk()
        self.state.exits_on_error = exits
        if self.failure is not None:
            self.failure.exits_on_error = exits
        return outputs

    # Simple commands.

    def walk_simple(self, node: SimpleCommand, location: Location, stdin: Outputs) -> Outputs:
        """Walk through one command, and return its output."""
        if self.exhausted:
            return (UNKNOWN,)
        stdin = self.state.stdin if stdin == SILENCE else stdin
        self.input = stdin  # substitutions in its words read it, too
        environment = list(self._read_assignments(node, location))
        readings = self._expand_command(node, location)
        if len(readings) == len(stdin) == 1 and not environment and not node.redirects:
            call = self._build_call(readings[0], stdin[0], node, location)
            outputs = self.run_named(call, node.start, node.end, location)
            self.feed_sinks()
            return outputs
        inputs = self.redirected_input(node, location, stdin)
        writes, reads = self._redirected_files(node.redirects, location)
        if inputs != stdin and all(args and args[0].text == "exec" for args in readings):
            self.state.stdin = inputs
        if not node.words:
            for assignment, values in environment:
                self._assign(assignment, values)
        variables = tuple(
            (assignment.name, value)
            for assignment, values in environment
            for value in texts_of(values)
        )
        ways = [(args, source) for args in readings for source in inputs]
        if len(ways) > _MAX_TRIED_READINGS:
            self._report_readings(node, location)
        calls = [
            self._build_call(args, source, node, location)._replace(
                writes=writes, reads=reads, environment=variables
            )
            for args, source in ways[:_MAX_TRIED_READINGS]
        ]
        temporary = {assignment.name: values for assignment, values in environment if node.words}
        outputs = self.take_ways(
            [partial(self._run_call, call, node, location, temporary) for call in calls]
        )
        self.feed_sinks()
        return SILENCE if _is_redirected(node.redirects) else outputs

    def _expand_command(self, node: SimpleCommand, location: Location) -> list[list[Arg]]:
        """Return the readings of the words of a command."""
        words = [
            self.expand_args(word, location, starts=number == 0)
            for number, word in enumerate(node.words)
        ]
        combinations, more = combine_readings(words, _MAX_COMMAND_READINGS)
        if more:
            # Each reading of a word counts at least once, beside the first of the others.
            firsts = tuple(readings[0] for readings in words)
            combinations = [
                (*firsts[:place], reading, *firsts[place + 1 :])
                for place, readings in enumerate(words)
                for reading in readings
            ]
            names = {args[0].text for args in words[0] if args}
            if not names <= _HARMLESS or len(combinations) > _MAX_TRIED_READINGS:
                self._report_readings(node, location)
            combinations = combinations[:_MAX_TRIED_READINGS]
        return [[arg for args in combination for arg in args] for combination in combinations]

    def _report_readings(self, node: SimpleCommand, location: Location) -> None:
        self.report(CommandHit("TOO_MANY_READINGS"), node.start, node.end, "", location)

    def _build_call(
        self, args: list[Arg], stdin: Value, node: SimpleCommand, location: Location
    ) -> ProgramCall:
        while len(args) > 1 and args[0].text in _TRANSPARENT and args[1].text in _IN_THE_SHELL:
            args = args[1:]
        name = args[0] if args else Arg("", node.start, node.start)
        return ProgramCall(
            verb=program_name(name.text),
            name=name,
            args=tuple(args[1:]),
            via=location.via,
            stdin=stdin,
            piped=location.pipe_start >= 0,
            cwd=self.state.cwd,
        )

    def _run_call(
        self,
        call: ProgramCall,
        node: SimpleCommand,
        location: Location,
        temporary: dict[str, Readings],
    ) -> Outputs:
        """Run one reading of a command, with the variables that are set for it alone."""
        before = {name: self.state.variables.get(name) for name in temporary}
        for name, values in temporary.items():
            self.state.assign_readings(name, values)
        outputs = self.run_named(call, node.start, node.end, location)
        if call.verb in DECLARING:
            for assignment, values in zip(node.assignments, temporary.values(), strict=False):
                self._assign(assignment, values)
            return outputs
        for state in (self.state, self.failed_state()) if before else ():
            for name, old in before.items():
                state.variables.pop(name, None)
                if old is not None:
                    state.variables[name] = old
        return outputs

    def run_program(self, call: ProgramCall, start: int, end: int, location: Location) -> Outputs:
        """Run a command of the shell or another program."""
        failure = None
        if call.verb in FOLDER_CHANGES:
            failure = change_folder(call, self.state, self._is_outside)
        elif change := BUILTINS.get(call.verb):
            change(call, self.state)
        output = self.judge_program(call, start, end, location)
        if failure is not None:
            self.failure = failure
        if call.verb in LEAVING:
            if self.left and call.verb not in {"exit", "logout"}:
                self.left[-1].append(self.state.copy_state())
            self.state.dead = True
        return (output,)

    def _is_outside(self, folder: str) -> bool:
        return classify_path(folder, "/", self.bounds) not in _OWN_WORKSPACE

    # Words and assignments.

    def expand_args(
        self, word: ShellWord, location: Location, *, starts: bool = False
    ) -> list[list[Arg]]:
        """Return the readings of a word; see `expand_word`."""
        run = partial(self._run_substitution, location)
        return expand_word(word, self.state, run, starts=starts)

    def expand_whole(self, word: ShellWord, location: Location) -> list[Arg]:
        """Return the readings of a word that is not split; see `expand_unsplit`."""
        return expand_unsplit(word, self.state, partial(self._run_substitution, location))

    def _read_assignments(
        self, node: SimpleCommand, location: Location
    ) -> Iterator[tuple[ShellAssignment, Readings]]:
        """Yield each assignment of a command, with the readings of its value."""
        for written in node.assignments:
            run = partial(self._run_substitution, location)
            keys = expand_text(written.subscript, run)
            assignment = written._replace(subscript=keys[0].text)
            if assignment.items is None:
                args = self.expand_whole(assignment.value, location)
                readings: Readings = tuple((arg.value,) for arg in args)
            else:
                items = [self.expand_args(item, location) for item in assignment.items]
                combinations, more = combine_readings(items, MAX_READINGS)
                readings = tuple(
                    tuple(arg.value for args in combination for arg in args)
                    for combination in combinations
                )
                readings = (*readings, (ANY_TEXT,)) if more else readings
            if assignment.append:
                readings = self._append_readings(assignment, readings)
            if not node.words and not assignment.subscript and len(node.assignments) > 1:
                self._assign(assignment, readings)  # the next one may use it
            yield assignment, readings

    def _append_readings(self, assignment: ShellAssignment, added: Readings) -> Readings:
        """Return the readings of `name+=value`."""
        olds = [words or () for words in self.state.read_variable(assignment.name)]
        if assignment.items is not None:
            joined = [(*old, *(words or ())) for old in olds for words in added]
        else:
            values = [*texts_of(added)]
            joined = [
                (join_values([*old[:1], value]), *old[1:]) for old in olds for value in values
            ]
        return bound_readings(joined, (ANY_TEXT,))

    def _assign(self, assignment: ShellAssignment, readings: Readings) -> None:
        """Record an assignment; the keys of `name=([key]=value)` become names of items."""
        name = assignment.name
        if assignment.subscript:
            self.state.assign_item(name, assignment.subscript, tuple(texts_of(readings)))
            if name == "BASH_ALIASES":
                self.state.aliases[assignment.subscript] = tuple(
                    value.text for value in texts_of(readings)
                )
            return
        self.state.assign_readings(name, readings)
        for words in readings if assignment.items is not None else ():
            for word in words or ():
                if match := _KEYED.fullmatch(word.text):
                    self.state.assign_item(name, match[1], (word._replace(text=match[2]),))

    # Redirections.

    def redirected_input(
        self, node: CompoundCommand | SimpleCommand, location: Location, stdin: Outputs
    ) -> Outputs:
        """Return the input of a command, after its redirections."""
        for operator, word, descriptor in node.redirects:
            if operator not in _INPUTS and isinstance(node, SimpleCommand):
                continue
            targets = self.expand_whole(word, location)
            # An output that is a connection is the input of the commands in a group, too.
            if operator not in _INPUTS and not targets[0].text.startswith(SOCKETS):
                continue
            if operator in {"<<", "<<-", "<<<"}:
                found = tuple(target.value for target in targets)
            elif operator == "<&":
                found = tuple(self._descriptor_content(target) for target in targets)
            else:
                if not isinstance(node, SimpleCommand):
                    for target in targets:
                        effect = FileEffect(EffectKind.READ, target)
                        self.report_effect(effect, node.start, node.end, "<", location)
                found = tuple(self._file_content(target) for target in targets)
            if descriptor in {"", "0"}:
                stdin = found
            else:
                self._open_descriptor(descriptor, f"/dev/fd/{descriptor}", found[0])
        return stdin

    def _open_descriptor(self, descriptor: str, path: str, value: Value) -> None:
        """Record what a descriptor holds; `{name}` gets a number of its own."""
        if descriptor.startswith("{"):
            self.processes += 1
            number = str(_FIRST_PROCESS + self.processes)
            self.state.assign(descriptor.strip("{}"), Value(number))
            path = f"/dev/fd/{number}"
        self.state.write_file(path, value)

    def _descriptor_content(self, target: Arg) -> Value:
        path = f"/dev/fd/{target.text.rstrip('-')}"
        return self.state.files.get(path, EMPTY if target.text in {"-", "0"} else UNKNOWN)

    def _file_content(self, target: Arg) -> Value:
        taints = target.taints | self.file_origins(target) | {Taint.EXTERNAL}
        unknown = Value("", known=False, taints=taints)
        return self.state.files.get(self.state.resolve_path(target.text), unknown)

    def write_out(self, outputs: Outputs, node: CompoundCommand, location: Location) -> Outputs:
        """Write the output of a compound command to its redirections."""
        written = False
        for operator, word, descriptor in node.redirects:
            if operator in _OUTPUTS and descriptor in {"", "1"}:
                for target in self.expand_whole(word, location):
                    if target.text.isdigit() or target.text == "-":
                        continue
                    written = True
                    append = operator in _ADDING
                    effect = FileEffect(EffectKind.WRITE, target, append=append)
                    self.report_effect(effect, node.start, node.end, ">", location)
                    value = join_values(list(outputs), "\n")
                    value = value if len(outputs) == 1 else value._replace(known=False)
                    self.state.write_file(target.text, value, append=append)
        return SILENCE if written else outputs

    def _redirected_files(
        self, redirects: Iterable[ShellRedirect], location: Location
    ) -> tuple[tuple[WrittenFile, ...], tuple[Arg, ...]]:
        """Return the files that redirections write and read."""
        writes: list[WrittenFile] = []
        reads: list[Arg] = []
        for operator, word, descriptor in redirects:
            if operator.startswith("<<") or operator == "<&":
                continue
            for target in self.expand_whole(word, location):
                if operator in {"<", "<>"}:
                    reads.append(target)
                if operator not in _OUTPUTS or target.text == "-":
                    continue
                if not target.text.isdigit():
                    writes.append(WrittenFile(target, operator in _ADDING))
                    if descriptor not in {"", "1", "2"}:
                        self.state.descriptors[descriptor] = target.text
                elif path := self.state.descriptors.get(target.text):
                    writes.append(WrittenFile(target._replace(text=path), True))
        return tuple(writes), tuple(reads)

    # Substitutions.

    def _run_substitution(self, location: Location, piece: WordPiece) -> Outputs:
        """Walk through a substitution, and return its value."""
        end = piece.start + len(piece.text)
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), piece.start, end, "", location)
            return (UNKNOWN,)
        captured = location._replace(captured=True, pipe_start=-1)
        failure, self.failure = self.failure, None
        stdin = self.input
        if piece.script is None:
            arg = Arg(piece.text, piece.start, end)
            outputs = self.walk_subshell(
                partial(self.walk_text, arg, captured, self.input), captured
            )
        else:
            inner = captured._replace(depth=location.depth + 1)
            if piece.kind is PieceKind.PROCESS:
                outputs = self._start_process(piece, piece.script, inner)
            else:
                walk = partial(self.walk_script, piece.script, inner, self.input)
                outputs = self.walk_subshell(walk, inner)
        self.failure, self.input = failure, stdin
        return outputs

    def _start_process(self, piece: WordPiece, script: ShellScript, location: Location) -> Outputs:
        """Return the path of `<(...)`, whose file holds its output, or of `>(...)`."""
        path = f"/dev/fd/{_FIRST_PROCESS + self.processes}"
        self.processes += 1
        if piece.text == ">":
            self.sinks.append((path, script, location))
            return (Value(path),)
        walk = partial(self.walk_script, script, location, SILENCE)
        outputs = self.walk_subshell(walk, location)
        value = join_values(list(outputs), "\n")
        value = value if len(outputs) == 1 else value._replace(known=False)
        self.state.write_file(path, value)
        return (Value(path, taints=value.taints),)

    def feed_sinks(self) -> None:
        """Walk through each `>(...)` with what was written to it."""
        if not self.sinks:
            return
        sinks, self.sinks = self.sinks, []
        for path, script, location in sinks:
            stdin = (self.state.files.get(path, UNKNOWN),)
            walk = partial(self.walk_script, script, location, stdin)
            self.walk_subshell(walk, location)


_IN_THE_SHELL = frozenset(
    {*BUILTINS, *FOLDER_CHANGES, *LEAVING, "eval", "source", ".", *_TRANSPARENT}
)
_KEYED = re.compile(r"\[([^\]]+)\]=(.*)", re.DOTALL)


def _is_redirected(redirects: Iterable[ShellRedirect]) -> bool:
    """Whether the output of a command goes to a file."""
    for operator, word, descriptor in redirects:
        text = word.pieces[0].text if len(word.pieces) == 1 else "$"
        if operator in _OUTPUTS and operator != "<>" and descriptor in {"", "1"}:
            if text == "2" or not (text.isdigit() or text.startswith("/dev/")):
                return True
            if text == "/dev/null":
                return True
    return False
