"""The files in deploy/ are valid settings, and a dump of PostgreSQL restores to valid chains."""

import configparser
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import yaml
from support.postgres_server import Server

from demur.gate.config import Config
from demur.gate.gate import Gate
from demur.policy.loader import parse_policy
from demur.service.settings import ServiceSettings
from demur.store.opening import open_store
from demur.store.verify import verify_chain

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read_manifests(name: str) -> dict[str, Any]:
    text = (DEPLOY / "kubernetes" / name).read_text(encoding="utf-8")
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text)}


def test_the_settings_and_the_policy_of_the_config_map_are_valid() -> None:
    files = read_manifests("demur.yaml")["ConfigMap"]["data"]
    settings = msgspec.convert(tomllib.loads(files["demur.toml"]), Config)

    assert msgspec.convert(settings.service, ServiceSettings).host == "0.0.0.0"  # noqa: S104 - a pod listens for others
    assert parse_policy(files[settings.policy]).policy_id == "agent"


def test_supervisors_wait_longer_than_the_service_takes_to_stop() -> None:
    service = ServiceSettings()
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "demur.service")
    pod = read_manifests("demur.yaml")["Deployment"]["spec"]["template"]["spec"]

    assert unit.getint("Service", "TimeoutStopSec") > service.drain_s + service.grace_s
    assert pod["terminationGracePeriodSeconds"] > service.drain_s + service.grace_s


def test_a_dump_of_postgresql_restores_to_valid_chains(
    postgres_server: Server, postgres_url: str
) -> None:
    policy = parse_policy(
        read_manifests("demur.yaml")["ConfigMap"]["data"]["policy.yaml"], "policy.yaml"
    )
    request = {"action": {"type": "refund", "amount": {"value": 20, "currency": "EUR"}}}
    with Gate(policy, open_store(postgres_url)) as gate:
        decided = gate.decide(request)
        assert gate.store is not None
        heads = gate.store.list_heads()

    dump = str(postgres_server.folder / "demur.dump")
    postgres_server.run_program("pg_dump", "--format=custom", f"--file={dump}", postgres_url)
    restored = postgres_server.new_database()
    postgres_server.run_program(
        "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={restored}", dump
    )

    with Gate(policy, open_store(restored)) as gate:
        assert gate.store is not None
        assert gate.store.get(decided.decision_id) == decided
        assert gate.decide(request).outcome == "allowed"
        assert verify_chain(gate.store.backend, heads=heads).holds
    postgres_server.drop(restored)
