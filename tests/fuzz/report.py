#!/usr/bin/env python3
"""Tells how many calls were made and how they were answered; fails when they were too few.

Usage: report.py FEWEST COUNTS...
"""
import json
import pathlib
import sys

# Of an account's calls, at least this share must get past the checks of input and permission.
LEAST_SHARE = 0.02


def main():
    fewest = int(sys.argv[1])
    total = 0
    for name in sys.argv[2:]:
        path = pathlib.Path(name)
        counts = {int(status): number for status, number in json.loads(path.read_text()).items()}
        calls = sum(counts.values())
        good = sum(number for status, number in counts.items() if status < 300)
        answers = ", ".join(f"{status}: {number}" for status, number in sorted(counts.items()))
        print(f"as {path.parent.name}: {calls} calls ({answers})")
        if good < LEAST_SHARE * calls:
            sys.exit(f"only {good} calls succeeded: the input does not fit the API")
        total += calls
    print(f"{total} calls, no finding")
    if total < fewest:
        sys.exit(f"fewer than {fewest} calls")


main()
