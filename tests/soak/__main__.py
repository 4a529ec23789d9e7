"""`make soak`: load a service for minutes, print what came of it, and fail where anything did."""

from __future__ import annotations

import argparse
import sys
from statistics import median

from tests.soak.soak import MAX_GROWTH, soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    result = soak(parser.parse_args().seconds)
    for (client, status), count in sorted(result.outcomes.statuses.items()):
        print(f"{client:10s} {status or 'no answer':>9} {count:9d}")
    seconds = sorted(result.outcomes.ordinary_seconds)
    print(
        f"ordinary questions: {1000 * median(seconds):.0f} ms at the median, "
        f"{1000 * seconds[int(0.99 * len(seconds))]:.0f} ms for 99 in a hundred"
    )
    growth = result.final_bytes / result.warm_bytes
    print(
        f"resident memory: {result.warm_bytes / 2**20:.1f} MiB warm, "
        f"{result.final_bytes / 2**20:.1f} MiB at the end, {growth:.3f} x (at most {MAX_GROWTH})"
    )
    if result.faults:
        sys.exit("\n".join(result.faults))


if __name__ == "__main__":
    main()
