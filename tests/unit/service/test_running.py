import signal
from pathlib import Path

import httpx
import msgspec
import pytest
from gates import Ticking
from listening import folder_of

from demur.errors import InputError
from demur.gate.config import load_config
from demur.service.running import add_sample, run_service
from demur.service.settings import read_settings


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_is_served_until_it_is_told_to_stop(tmp_path: Path, workers: int) -> None:
    path = folder_of(tmp_path, drain_s=0.0) / "demur.toml"
    config = load_config(path)
    settings = read_settings(config.service, port=0, workers=workers)
    seen: list[int] = []

    def started(url: str) -> None:
        if workers > 1:
            seen.append(httpx.get(f"{url}/health", timeout=30).status_code)
        signal.raise_signal(signal.SIGTERM)

    run_service(path, config, settings, on_started=started)

    assert seen == [200] * (workers > 1)


def test_what_is_wrong_is_said_before_workers_start(tmp_path: Path) -> None:
    path = folder_of(tmp_path) / "demur.toml"
    config = load_config(path)
    settings = read_settings(config.service, host="0.0.0.0", workers=2, port=0)  # noqa: S104 - the case

    with pytest.raises(InputError, match="no API key"):
        run_service(path, config, settings)


def test_a_sample_day_is_stored_once(tmp_path: Path) -> None:
    config = load_config(folder_of(tmp_path) / "demur.toml")

    first, again = add_sample(config, Ticking()), add_sample(config, Ticking())

    assert first > 100
    assert again == 0
    assert add_sample(msgspec.structs.replace(config, store="")) == 0
