"""`make audit`: ask a database of known vulnerabilities about every version that a lock file names,
whatever platform it is for. Exits with 1 where one is known or the database breaks off.

Whether it can be asked at all is found out first, by a version whose vulnerability is known: where
that is not told, the database is out of reach, or is an index that knows of none, and the audit is
skipped in plain words.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

VULNERABLE = "pyyaml==5.3"
"""CVE-2020-1747."""

PIN = re.compile(r"^([a-z0-9.-]+)(?:\[[a-z, -]+\])?==([^\s+]+)", re.MULTILINE)
"""Without what follows a plus: a local build of a version, of which a database does not know."""


def rounds(locks: Iterable[Path]) -> list[list[str]]:
    """Every version that is locked, such that none of the lists has two of one package: pip-audit
    takes two for a mistake, but locks have one for each Python.
    """
    versions: dict[str, set[str]] = {}
    for lock in locks:
        for name, version in PIN.findall(lock.read_text()):
            versions.setdefault(name, set()).add(f"{name}=={version}")
    together = zip_longest(*map(sorted, versions.values()))
    return [[pin for pin in pins if pin is not None] for pins in together]


def ask(pins: Sequence[str], options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What pip-audit finds about these versions, from no cache."""
    with TemporaryDirectory() as folder:
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("\n".join(pins))
        command = [sys.executable, "-m", "pip_audit", "--strict", "--progress-spinner", "off"]
        command += ["--no-deps", "--disable-pip", "--requirement", str(requirements)]
        command += ["--cache-dir", str(Path(folder, "cache")), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def why_not(options: Sequence[str]) -> str | None:
    """Why the database is not to be asked; None where it is."""
    answer = ask([VULNERABLE], ["--format", "json", *options])
    try:
        (package,) = json.loads(answer.stdout)["dependencies"]
    except ValueError:
        said = answer.stderr.strip().splitlines() or ["no answer"]
        return said[-1].removeprefix("ERROR:pip_audit._cli:")
    return None if package["vulns"] else f"it knows of no vulnerability of {VULNERABLE}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("locks", nargs="+", type=Path)
    parser.add_argument("--osv-url", help="ask this service, which speaks as OSV does")
    given = parser.parse_args()
    options = (
        ["--vulnerability-service", "osv", "--osv-url", given.osv_url] if given.osv_url else []
    )
    if (reason := why_not(options)) is not None:
        print(f"SKIPPED: make audit. No database of vulnerabilities: {reason}", file=sys.stderr)
        return 0
    failed = False
    for pins in rounds(given.locks):
        answer = ask(pins, options)
        failed |= answer.returncode != 0
        print(f"{len(pins)} packages: {answer.stderr.strip()}\n{answer.stdout}".strip())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
