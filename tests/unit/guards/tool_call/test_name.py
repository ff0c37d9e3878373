import pytest

from demur.guards.tool_call.name import find_look_alike, name_skeleton

KNOWN = ["read_file", "send_email", "get", "transfer_money_abroad"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Read-File", "read_file"),
        ("r\u0435ad_file", "read_file"),
        ("read\u200b_file", "read_file"),
        ("send_emai1", "send_email"),
        ("sned_email", "send_email"),
        ("send_emails", "send_email"),
        ("sendemail", "send_email"),
        ("transfer_mony_abraod", "transfer_money_abroad"),
    ],
)
def test_a_look_alike_names_what_it_passes_for(name: str, meant: str) -> None:
    assert find_look_alike(name, KNOWN) == meant


@pytest.mark.parametrize("name", ["set", "list_files", "read_file", "write_mail", "", "x" * 5000])
def test_other_names_are_no_look_alikes(name: str) -> None:
    assert find_look_alike(name, KNOWN) is None


def test_the_same_skeleton_beats_a_slip() -> None:
    assert (
        find_look_alike("send_emai1", ["send_emall_", "send_emaix", "send_email"]) == "send_emall_"
    )


def test_letters_that_are_read_as_one_have_one_skeleton() -> None:
    assert name_skeleton("corn_vvorker") == name_skeleton("com-worker")
