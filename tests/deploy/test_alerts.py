"""The alerts hold what they say, by Prometheus's own tools."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import needed
from tools.prometheus_rule import MANIFEST, MONITORING, made

ROOT = Path(__file__).parents[2]
ALERTS = MONITORING / "alerts.yaml"
TESTS = MONITORING / "alerts.test.yaml"


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def alerts() -> list[dict[str, Any]]:
    (group,) = loaded(ALERTS)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.mark.parametrize(
    "arguments", [("check", "rules", ALERTS), ("test", "rules", TESTS)], ids=["check", "test"]
)
def test_the_rules_hold(arguments: tuple[str, str, Path]) -> None:
    promtool = needed("promtool", package="prometheus")
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_each_alert_is_tested_both_ways() -> None:
    tested: dict[str, set[bool]] = {}
    for case in loaded(TESTS)["tests"]:
        for each in case["alert_rule_test"]:
            tested.setdefault(each["alertname"], set()).add("exp_alerts" in each)
    assert tested == {rule["alert"]: {False, True} for rule in alerts()}


def test_each_alert_is_in_the_runbook() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text("utf-8")
    sections = re.findall(r"^## (Trainfit\w+)$", runbook, re.MULTILINE)
    assert sections == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


def test_the_operator_s_rules_are_the_same() -> None:
    assert MANIFEST.read_text("utf-8") == made(), "run `make manifests`"
    assert loaded(MANIFEST)["spec"] == loaded(ALERTS)
