from typing import Any

import pytest
from support.service_app import Caller, add_key, open_service


def made(call: Caller, key: str, **body: Any) -> Any:
    return call("POST", "/v1/keys", {"roles": ["read"], **body}, key=key)


def test_an_admin_makes_lists_and_revokes_keys() -> None:
    with open_service() as call:
        admin = add_key(call.store, "", "admin")
        new = made(call, admin, tenant="acme", note="for tests", days=1)
        token, key = new.json()["token"], new.json()["key"]
        assert call("GET", "/v1/codes", key=token).status_code == 200
        listed = call("GET", "/v1/keys?tenant=acme", key=admin)
        gone = call("DELETE", f"/v1/keys/{key['key_id']}", key=admin)
        again = call("DELETE", f"/v1/keys/{key['key_id']}", key=admin)

    assert new.status_code == 201
    assert key["roles"] == ["read"]
    assert key["expires_at"] == "2026-11-16T12:00:00.000Z"
    assert listed.json()["keys"] == [key]
    assert token not in listed.text
    assert "digest" not in listed.text
    assert gone.json()["revoked_at"] == again.json()["revoked_at"] == "2026-11-15T12:00:00.000Z"


def test_a_key_without_a_tenant_is_for_that_of_its_maker() -> None:
    with open_service() as call:
        every, acme = add_key(call.store, "", "admin"), add_key(call.store, "acme", "admin")

        assert made(call, every).json()["key"]["tenant"] == ""
        assert made(call, acme).json()["key"]["tenant"] == "acme"
        assert made(call, acme, tenant="acme").status_code == 201


def test_an_admin_of_one_tenant_is_no_admin_of_another() -> None:
    with open_service() as call:
        acme = add_key(call.store, "acme", "admin")
        other = add_key(call.store, "other", "read").split("_")[1]

        assert made(call, acme, tenant="other").status_code == 403
        assert made(call, acme, tenant="").status_code == 403
        assert call("DELETE", f"/v1/keys/{other}", key=acme).status_code == 404
        assert call("GET", "/v1/keys?tenant=other", key=acme).status_code == 403
        listed = call("GET", "/v1/keys", key=acme).json()["keys"]
        assert {key["tenant"] for key in listed} == {"acme"}
        kept = call.store.list_keys()
        assert [key.revoked_at for key in kept if key.key_id == other] == [None]


def test_only_an_admin_with_a_key_makes_keys() -> None:
    with open_service() as call:
        assert call("POST", "/v1/keys", {"roles": ["read"]}).status_code == 403
        reader = add_key(call.store, "acme", "read", "decide", "label")
        assert made(call, reader).status_code == 403


@pytest.mark.parametrize(
    "body",
    [{"roles": []}, {"roles": ["king"]}, {"tenant": "a\nb"}, {"note": "\0"}, {"days": 0}, {"x": 1}],
)
def test_an_invalid_key_request_is_refused(body: dict[str, Any]) -> None:
    with open_service() as call:
        admin = add_key(call.store, "", "admin")
        assert made(call, admin, **body).status_code == 422


def test_a_call_without_a_key_learns_that_it_has_none() -> None:
    with open_service() as call:
        answered = call("GET", "/v1/keys")

    details = answered.json()
    assert answered.status_code == 403
    assert details["detail"] == "a call without a key has no role `admin`"
    assert "demur keys create --role admin" in details["help"]
