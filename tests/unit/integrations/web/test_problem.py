import pickle

from demur.integrations.web.problem import UnusableRequestError


def test_a_refused_request_can_be_sent_to_another_process() -> None:
    refused = UnusableRequestError.too_large(5)

    again = pickle.loads(pickle.dumps(refused))  # noqa: S301 - it was made here

    assert (again.status, str(again)) == (413, str(refused))
