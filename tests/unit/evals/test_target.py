from eval_rows import Scripted, a_row, wait

from demur.evals.target import EvalTarget, TargetError


def test_anything_of_that_shape_is_a_target() -> None:
    target: EvalTarget = Scripted()

    assert wait(target.answer(a_row(1))).row_id == "r1"
    wait(target.close())


def test_a_wrong_target_is_a_value_error_with_help() -> None:
    error = TargetError("no such thing", help="try another")

    assert isinstance(error, ValueError)
    assert str(error) == "no such thing\n  help: try another"
