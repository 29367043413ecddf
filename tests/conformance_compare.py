#!/usr/bin/env python3
"""Replays the recorded conversations and compares the steps that differ with those that differ on purpose.

    conformance_compare.py CONFORMANCE_FOLDER API_URL PASSWORD_FILE EXPECTED_FILE [--reversed | --shuffled=SEED]

A line of EXPECTED_FILE is the name of a case, a blank, and a step's number; text after `#` says why. Exit status 0 when
exactly those steps differ, 1 otherwise, 2 when the conversations cannot be replayed.
"""
import os
import pathlib
import random
import re
import subprocess
import sys

DIFFERENCE = re.compile(r"^(\S+) step (\d+): ")
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.MULTILINE)


def read_expected(path):
    """The steps that differ on purpose."""
    steps = set()
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            steps.add((fields[0], int(fields[1])))
    return steps


def ordered(cases, options):
    """The cases in the order that is asked for."""
    for option in options:
        if option == "--reversed":
            cases.reverse()
        elif option.startswith("--shuffled="):
            random.Random(int(option.split("=")[1])).shuffle(cases)
        else:
            sys.exit(f"unknown option {option}")
    return cases


def replay(folder, url, password, options):
    """Runs all cases; answers the report."""
    cases = ordered(sorted(str(case) for case in (folder / "cases").rglob("*.json")), options)
    command = [sys.executable, str(folder / "conformance.py"), "--url", url, "--show", "1000000", *cases]
    run = subprocess.run(command, env={**os.environ, "EXCHANGE_ROOTPW": password}, capture_output=True, text=True)
    return run.stdout + run.stderr


def details(report, step):
    """The lines of the report that tell about one step."""
    lines = report.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("%s step %d: " % step))
    end = start + 1
    while end < len(lines) and lines[end].startswith("    "):
        end += 1
    return lines[start:end]


def main():
    folder, url, password_file, expected_file = sys.argv[1:5]
    password = pathlib.Path(password_file).read_text().rstrip("\n")
    report = replay(pathlib.Path(folder), url, password, sys.argv[5:])
    summary = SUMMARY.search(report)
    if not summary:
        print(report[-4000:])
        return 2
    found = {(m.group(1), int(m.group(2))) for m in map(DIFFERENCE.match, report.splitlines()) if m}
    expected = read_expected(expected_file)
    for step in sorted(found - expected):
        print("\n".join(details(report, step)))
    for step in sorted(expected - found):
        print("%s step %d is listed as different, but agrees" % step)
    print("%s; %d of the differences are wanted" % (summary.group(0), len(found & expected)))
    return 0 if found == expected and int(summary.group(1)) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
