"""The state of a shell: variables, arrays, files, folders, and merging two states."""

from demur.guards.code_execution.call import Taint, Value
from demur.guards.code_execution.shell_state import MAX_READINGS, ShellState, texts_of


def test_variables_positions_and_what_every_shell_sets() -> None:
    state = ShellState("/desk")
    state.assign("x", Value("1"))
    state.positional = ((Value("a"),),)
    names = ("x", "1", "2", "PWD", "HOME", "0")

    assert [[value.text for value in texts_of(state.read_variable(name))] for name in names] == [
        ["1"],
        ["a"],
        [""],
        ["/desk"],
        ["/~"],
        ["sh"],
    ]
    assert state.read_variable("y") == (None,)


def test_files_keep_content_and_origin() -> None:
    state = ShellState("/desk")
    state.write_file("x", Value("a"))
    state.write_file("./x", Value("b", taints=frozenset({Taint.SECRET})), append=True)

    assert state.files["/desk/x"] == Value("ab", taints=frozenset({Taint.SECRET}))
    assert state.resolve_path("") == "/desk"


def test_items_are_found_by_number_and_by_name() -> None:
    state = ShellState("/desk")
    state.assign_item("list", "1", (Value("b"),))
    state.assign_item("list", "0", (Value("a"),))
    state.assign_item("map", "key", (Value("v"),))

    assert state.read_items("list") == ((Value("a"), Value("b")),)
    assert state.read_items("map") == ((Value("v"),),)


def test_after_two_ways_both_are_readings() -> None:
    first, second = ShellState("/a"), ShellState("/b")
    first.assign("x", Value("1"))
    first.write_file("/f", Value("one"))
    second.write_file("/f", Value("two"))
    merged = first.merge_state(second)

    assert merged.read_variable("x") == ((Value("1"),), None)
    assert merged.folders == ("/a", "/b")
    assert merged.files["/f"] == Value("one\ntwo", known=False)


def test_a_dead_state_leaves_nothing() -> None:
    dead, alive = ShellState("/a"), ShellState("/b")
    dead.dead = True

    assert dead.merge_state(alive) is alive
    assert alive.merge_state(dead) is alive


def test_the_folder_behind_a_failed_cd_stays_apart() -> None:
    reached, missed = ShellState("/a"), ShellState("/b")
    missed.after_missed = True
    merged = reached.merge_state(missed)

    assert (merged.folders, merged.missed_folders) == (("/a",), ("/b",))


def test_a_shell_that_is_started_sees_exported_variables_alone() -> None:
    state = ShellState("/a")
    state.assign("x", Value("1"))
    state.assign("y", Value("2"))
    state.exported = frozenset({"y"})
    child = state.enter_child(frozenset(), (Value("sh"), Value("a")))

    assert child.read_variable("x") == ((Value("1"),), None)
    assert child.read_variable("y") == ((Value("2"),),)
    assert child.read_variable("1") == ((Value("a"),),)


def test_readings_beyond_the_bound_become_an_unknown_one() -> None:
    state = ShellState("/a")
    state.assign("x", *(Value(str(number)) for number in range(20)))
    readings = list(texts_of(state.read_variable("x")))

    assert len(readings) == MAX_READINGS
    assert not readings[-1].known


def test_the_name_of_an_unknown_value_cannot_be_assigned() -> None:
    state = ShellState("/a")
    state.assign("unknown", Value("ls"))

    assert state.read_variable("unknown") == (None,)
