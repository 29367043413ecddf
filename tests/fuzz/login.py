#!/usr/bin/env python3
"""Tells the credentials of an account in the fixture, or checks that they are still good.

Usage: login.py FIXTURE ACCOUNT
       login.py --check URL FIXTURE ACCOUNT
"""
import base64
import json
import sys
import urllib.request


def credentials(fixture, account):
    with open(fixture, encoding="utf-8") as file:
        return ":".join(json.load(file)["logins"][account])


def check(url, fixture, account):
    """Ends the program when the fuzzer lost the account on its way: its later calls were then all the same."""
    header = "Basic " + base64.b64encode(credentials(fixture, account).encode()).decode()
    request = urllib.request.Request(url + "/v1/orgs", headers={"Authorization": header})
    with urllib.request.urlopen(request, timeout=60) as answer:
        if answer.status != 200:
            sys.exit(f"the account {account} is not what it was")


def main():
    if sys.argv[1] == "--check":
        check(*sys.argv[2:])
    else:
        print(credentials(*sys.argv[1:]))


main()
