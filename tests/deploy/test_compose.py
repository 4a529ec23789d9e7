"""The compose file: valid, confined, and made of files that are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import needed

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"
DOCUMENT: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]


def test_it_is_of_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema"]
    command += ["--builtin-schema", "vendor.compose-spec", str(COMPOSE / "compose.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_may_do_what_it_need_not(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "pids_limit"} <= service.keys()
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    if "build" not in service:
        assert service["image"].rpartition(":")[2] not in ("", "latest")


def test_what_is_mounted_is_there() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (COMPOSE / source).is_file()
                assert volume.endswith(":ro")
            else:
                assert source in DOCUMENT["volumes"]
    assert (COMPOSE / SERVICES["trainfit"]["build"]["context"] / "Dockerfile").is_file()


def test_the_service_is_told_where_the_cache_is() -> None:
    password = "${REDIS_PASSWORD:-trainfit}"
    url = SERVICES["trainfit"]["environment"]["TRAINFIT_CACHE_URL"]
    assert url == f"redis://:{password}@redis:6379/0"
    command = SERVICES["redis"]["command"]
    assert command[command.index("--requirepass") + 1] == password
    assert SERVICES["redis"]["environment"]["REDISCLI_AUTH"] == password
    assert SERVICES["trainfit"]["depends_on"] == ["redis"]


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    promtool = needed("promtool", package="prometheus")
    mounts = {
        Path(target).name: COMPOSE / source
        for source, target, _ in (
            volume.split(":") for volume in SERVICES["prometheus"]["volumes"] if ":ro" in volume
        )
    }
    for name, source in mounts.items():
        (tmp_path / name).write_bytes(source.read_bytes())
    command = [promtool, "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_grafana_is_provisioned_with_the_dashboard_and_its_source() -> None:
    mounts = dict(volume.split(":")[1::-1] for volume in SERVICES["grafana"]["volumes"])
    (source,) = loaded("grafana/datasources.yaml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"] is True
    (provider,) = loaded("grafana/dashboards.yaml")["providers"]
    dashboard = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert str(Path(dashboard).parent) == provider["options"]["path"]
    assert mounts[dashboard] == "../monitoring/dashboard.json"


def loaded(name: str) -> Any:
    return yaml.safe_load((COMPOSE / name).read_text("utf-8"))
