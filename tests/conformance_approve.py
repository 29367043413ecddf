#!/usr/bin/env python3
"""Writes the recorded conversations with one more step behind each step in which a user makes an agbot: an administrator approves it.

    conformance_approve.py CONFORMANCE_FOLDER EXPECTED_FILE TARGET_FOLDER

TARGET_FOLDER gets `conformance.py`, `cases` and `expected.txt`, in which the steps have their new numbers and those that differ because
their agbot was made by a plain user are missing: an approved agbot behaves like one of the reference.
"""
import json
import pathlib
import re
import shutil
import sys

# The reason in EXPECTED_FILE.
UNAPPROVED = "the agbot was made by a plain user"
MAKES_AGBOT = re.compile(r"^/orgs/[^/]+/agbots/[^/?]+$")


def approved(steps):
    """The steps with approvals, and the new number of each old one."""
    result, numbers = [], {}
    for number, step in enumerate(steps, 1):
        result.append(step)
        numbers[number] = len(result)
        if step["method"] == "PUT" and MAKES_AGBOT.match(step["path"]) and step.get("as") != "root":
            result.append({"as": "root", "method": "PUT", "path": step["path"] + "/approval"})
    return result, numbers


def main():
    directory, expected_file, target = map(pathlib.Path, sys.argv[1:4])
    (target / "cases").mkdir(parents=True)
    shutil.copy(directory / "conformance.py", target)
    renumbered = {}
    for source in sorted((directory / "cases").rglob("*.json")):
        case = json.loads(source.read_text())
        case["steps"], renumbered[case["case"]] = approved(case["steps"])
        (target / "cases" / source.name).write_text(json.dumps(case))
    lines = []
    for line in expected_file.read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields and UNAPPROVED not in line:
            lines.append("%s %d\n" % (fields[0], renumbered[fields[0]][int(fields[1])]))
    (target / "expected.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
