"""Steers the fuzzer: most calls go to things that exist, none destroys the accounts that it logs in with, all are counted.

FUZZ_FIXTURE names the file written by fixture.py, FUZZ_COUNTS the file for the numbers of answers by status.
"""
import atexit
import collections
import json
import os
import zlib

import schemathesis

import tolerance

with open(os.environ["FUZZ_FIXTURE"], encoding="utf-8") as file:
    VALUES = json.load(file)["values"]

# Accounts with credentials in use, by the path parameter that names them.
ACCOUNTS = {
    "username": ({"root", "admin", "user", "apikey", "iamapikey"}, "spare"),
    "node": ({"node"}, "spare-node"),
    "agreementbot": ({"bot"}, "spare-bot"),
}
ORGANIZATIONS = {"root", "fuzz", "IBM"}
VERSIONS = [{"version": "1.0.0"}]
# What a body must name that exists, so that it gets past the checks of references.
REFERENCES = {
    "service": {"name": "svc.fuzz", "org": "fuzz", "arch": "amd64", "serviceVersions": VERSIONS},
    "services": [
        {"serviceUrl": "svc.fuzz", "serviceOrgid": "fuzz", "serviceArch": "amd64", "serviceVersions": VERSIONS}
    ],
    "userInput": [],
    "requiredServices": [],
    "pattern": "",
    "sharable": "multiple",
    "members": ["node"],
}
BODIES_WITH_REFERENCES = ("/policies/{policy}", "/patterns/{pattern}", "/services/{service}", "/nodes/{node}", "/hagroups")

counts = collections.Counter()


def choice(case, name):
    """A number that depends on the case alone, so that a run with the same seed makes the same calls."""
    given = (case.path_parameters or {}).get(name)
    text = f"{case.method} {case.operation.path} {name} {given!r} {case.query!r} {case.body!r}"
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def aim(case):
    """Puts names of existing things into seven of eight paths."""
    for name in list(case.path_parameters or {}):
        number = choice(case, name)
        values = VALUES.get(name)
        if values and number % 8 != 0:
            case.path_parameters[name] = values[number // 8 % len(values)]


def spare_accounts(case):
    """Turns writes of accounts in use, and of their organizations, to others."""
    parameters = case.path_parameters or {}
    if case.method.upper() == "GET":
        return
    path = case.operation.path
    if path.endswith("orgs/{organization}") and parameters.get("organization") in ORGANIZATIONS:
        parameters["organization"] = "fuzz-spare"
    for name, (accounts, spare) in ACCOUNTS.items():
        writes_account = path.endswith("{%s}" % name) or path.endswith("{username}/changepw")
        if name in parameters and writes_account and parameters[name] in accounts:
            parameters[name] = spare


def refer(case):
    """Makes half of the bodies refer to things that exist."""
    is_one = case.operation.path.endswith(BODIES_WITH_REFERENCES)
    if not is_one or not isinstance(case.body, dict) or choice(case, "body") % 2:
        return
    for name, value in REFERENCES.items():
        if name in case.body:
            case.body[name] = value


@schemathesis.hook
def before_call(context, case, kwargs):
    aim(case)
    spare_accounts(case)
    refer(case)
    # A poll that waits takes its time and tells nothing more.
    if case.headers and "Prefer" in case.headers:
        case.headers["Prefer"] = "wait=0"


@schemathesis.hook
def after_call(context, case, response):
    counts[str(response.status_code)] += 1


@schemathesis.check
def wrong_shape_is_refused(context, response, case):
    """No success for a body that breaks its schema in more than the contract tolerates."""
    if response.status_code >= 300 or not isinstance(case.body, (dict, list)):
        return
    broken = tolerance.violation(case.method, case.operation.path, case.body)
    if broken:
        raise AssertionError(f"a body that breaks its schema was accepted: {broken}")


@atexit.register
def write_counts():
    with open(os.environ["FUZZ_COUNTS"], "w", encoding="utf-8") as file:
        json.dump(counts, file)
