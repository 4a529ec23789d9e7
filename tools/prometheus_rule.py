"""Writes the alerts of deploy/monitoring/ for the Prometheus Operator, from alerts.yaml."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

MONITORING = Path(__file__).parents[1] / "deploy" / "monitoring"
MANIFEST = MONITORING / "prometheus-rule.yaml"

HEAD = """\
# Made from alerts.yaml: change that and run `make manifests`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: trainfit
spec:
"""


def made() -> str:
    """The alerts as the Prometheus Operator takes them."""
    alerts = (MONITORING / "alerts.yaml").read_text("utf-8")
    groups = alerts[alerts.index("groups:\n") :]
    return HEAD + indent(groups, "  ")


if __name__ == "__main__":
    MANIFEST.write_text(made(), "utf-8")
