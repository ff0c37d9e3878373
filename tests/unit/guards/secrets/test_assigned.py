import pytest
from made_secrets import HEX, LETTERS, drawn

from demur.guards.output.guard import OutputConfig, OutputText, check
from demur.guards.secrets.assigned import ASSIGNED_SECRETS
from demur.model.finding import Action

VALUE = drawn(24)
CHOSEN = "Blue7Tram!x"


def actions(text: str) -> list[Action]:
    config = OutputConfig(loose_secrets=False, personal=None)
    return [
        finding.action
        for finding in check(OutputText(text), config)
        if finding.code == "SECRET_LEAK"
    ]


@pytest.mark.parametrize(
    "text",
    [
        f'api_key = "{VALUE}"',
        f"DB_PASSWORD={VALUE}",
        f"  client_secret: {VALUE},",
        f'"accessToken": "{VALUE}"',
        f"token := '{VALUE}'",
        f"'secret' => '{VALUE}'",
        f"Authorization: Bearer {VALUE}",
        f'{{\\"password\\": \\"{VALUE}\\"}}',
        f"**API key:** `{VALUE}`",
        f"signing-key={drawn(40, HEX)}",
    ],
)
def test_a_random_value_under_a_secret_name_is_blocked(text: str) -> None:
    assert actions(text) == [Action.BLOCK]


@pytest.mark.parametrize(
    "text",
    [
        f'password = "{CHOSEN}"',
        f"The admin password is {CHOSEN}.",
        f"The new token is {VALUE}.",
        "api_key: 4f3c2b1a-9d8e-4c7b-a6f5-0e1d2c3b4a59",
    ],
)
def test_what_a_person_may_have_made_up_is_only_recorded(text: str) -> None:
    assert actions(text) == [Action.WARN]


@pytest.mark.parametrize(
    "text",
    [
        'password = "changeme"',
        'password = "<your-password>"',
        "API_KEY=${API_KEY}",
        "token = os.environ['TOKEN']",
        "token = settings.auth.token2",
        "secret: vault:kv/app#A1b2C3d4E5f6G7h8",
        "secret = get_secret('db-A1b2C3d4E5f6')",
        "password == user.password_A1b2C3d4",
        "password: use at least twelve characters",
        f"public_key: {VALUE}",
        f"csrf_token: {VALUE}",
        f"next page token: {VALUE}",
        f"password_hash = {drawn(64, HEX)}",
        f"commit: {drawn(40, HEX)}",
        "tokens: 4096",
        "The secret is patience.",
        "The password is stored as a hash.",
        "compass: N45W12A7B3",
        f"https://host/?q=1:{VALUE}",
        "password:",
        "secret = 'A b c 1 2 3 D e f'",
    ],
)
def test_placeholders_code_and_open_names_pass(text: str) -> None:
    assert actions(text) == []


def test_only_the_value_is_marked() -> None:
    text = f'x = 1; api_key = "{VALUE}"; y = 2'
    [seen], _ = ASSIGNED_SECRETS.search(text, 0, True)

    assert text[seen.start : seen.end] == VALUE


def test_an_unquoted_value_ends_before_punctuation() -> None:
    text = f"The API key: {VALUE}."
    [seen], _ = ASSIGNED_SECRETS.search(text, 0, True)

    assert text[seen.start : seen.end] == VALUE


def test_an_unclosed_quote_is_cut_at_a_bound() -> None:
    value = drawn(400)
    [seen], _ = ASSIGNED_SECRETS.search(f'token = "{value}', 0, True)

    assert seen.end - seen.start == 200


def test_the_documented_example_of_a_cloud_key_only_goes_on_record() -> None:
    example = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"

    assert actions(f"aws_secret_access_key = {example}") == [Action.WARN]
    assert actions(f"Secret access key: {drawn(40, LETTERS + '/+')}") == [Action.BLOCK]


@pytest.mark.parametrize("text", ["password", "password =", 'password = "', f"token: {VALUE}"])
def test_a_value_that_may_go_on_is_not_decided_yet(text: str) -> None:
    seen, undecided = ASSIGNED_SECRETS.search(text, 0, False)

    assert seen == ()
    assert undecided < len(text)
