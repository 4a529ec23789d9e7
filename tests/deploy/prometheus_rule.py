"""Compares prometheus-rule.yaml of deploy/monitoring/ with alerts.yaml; --update rewrites it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import indent

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.deploy.prometheus_rule", description=__doc__
    )
    parser.add_argument("--update", action="store_true", help="write the manifest")
    if parser.parse_args().update:
        MANIFEST.write_text(made(), "utf-8")
    elif made() != MANIFEST.read_text("utf-8"):
        sys.exit(f"{MANIFEST.name} is not what alerts.yaml says; run `make manifests`")


if __name__ == "__main__":
    main()
