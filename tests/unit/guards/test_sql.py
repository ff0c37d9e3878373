import pytest

from demur.guards.sql import find_sweeps

SWEEPING = [
    "DELETE FROM users",
    "delete from users;",
    "delete from t -- where x = 1",
    "delete from t /* where x = 1 */",
    "delete from t # where x = 1",
    "update t set a = 1",
    "update only t set a = 1",
    "UPDATE \"where\" SET x = 'where'",
    "update t set a = (select b from c where d = 1)",
    "update t set a = 1 where 1 = 1",
    "update t set a = 1 where true",
    "delete from t where 1",
    "delete from t where x = 1 or 1=1",
    "delete from t where 'a' = 'a' or x = 2",
    "select 1; delete from t",
    "explain analyze delete from t",
    "with a as (delete from t returning *) select * from a",
    "with x as (select 1) update t set a = 2",
    "/*!50000 delete from t*/",
    "DELETE t1 FROM t1 JOIN t2 ON t1.a = t2.a",
    "drop table if exists x",
    "drop table x",
    "DROP DATABASE main",
    "truncate t",
    "truncate table t",
    "truncate t cascade",
    "begin delete from t",
]
HARMLESS = [
    "",
    "select * from t",
    "delete from users where id = 3",
    "delete from t where x = 1 or y = 2",
    "update t set a = 1 where id in (select id from u)",
    "delete from t where 0",
    "explain delete from t",
    "select * from t for update",
    "insert into t values (1) on conflict do update set a = 1",
    "create table a (b int references c on delete cascade)",
    "grant delete, update on t to bob",
    "select 'delete from t'",
    "select $$ drop table x $$",
    "select truncate(1.2, 1)",
    "truncate the long text here",
    "please update the set of docs",
    "delete from my list the eggs",
    "delete",
    "update",
    "drop",
    "drop index i",
    ";; drop index i",
    "update x set",
    "delete from",
    "delete from (x)",
    "/* delete from t",
    "'delete from t",
    "drop table",
    "truncate",
    "update ; set a = 1",
]


@pytest.mark.parametrize("text", SWEEPING)
def test_a_statement_that_affects_every_row_is_found(text: str) -> None:
    assert len(list(find_sweeps(text))) == 1


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_is_not(text: str) -> None:
    assert list(find_sweeps(text)) == []


def test_the_sweep_marks_its_statement_alone() -> None:
    text = "select 1; update t set a = (1) ; select 2"
    [sweep] = find_sweeps(text)

    assert text[sweep.start : sweep.end] == "update t set a = (1)"
    assert (sweep.verb, sweep.target, sweep.why) == ("update", "t", "no condition")


def test_a_place_inside_a_running_comment_is_right() -> None:
    text = "/*!40101 drop table [x] */"
    [sweep] = find_sweeps(text)

    assert text[sweep.start : sweep.end] == "drop table [x]"
    assert sweep.target == "x"


@pytest.mark.parametrize("text", ["/*" * 20_000, "[" * 40_000, "(" * 40_000, "delete " * 9_000])
def test_text_that_is_left_open_costs_no_more(text: str) -> None:
    assert list(find_sweeps(f"update {text}")) == []


def test_a_long_condition_is_read_to_its_end() -> None:
    words = ["delete from t where", *["a = b or"] * 5_000]

    found = list(find_sweeps(" ".join([*words, "1 = 1"])))
    assert [sweep.why for sweep in found] == ["a condition that always holds"]
    assert list(find_sweeps(" ".join([*words, "a = c"]))) == []


def test_comments_that_run_are_read_however_deep_they_are_nested() -> None:
    text = "/*!50000 " * 5_000 + "delete from t"

    assert [(sweep.target, sweep.end) for sweep in find_sweeps(text)] == [("t", len(text))]


def test_a_comment_that_runs_and_is_left_open_is_read_to_its_end() -> None:
    text = "/*!50000 truncate users"

    assert [(sweep.target, sweep.end) for sweep in find_sweeps(text)] == [("users", len(text))]


def test_a_quote_that_ends_in_a_backslash_is_left_open() -> None:
    assert list(find_sweeps("delete from t where a = 'b\\")) == []
