#!/usr/bin/env python3
"""Fills a fresh hub with one of everything and every kind of account, for the fuzzer.

Usage: fixture.py URL ROOT-PASSWORD-FILE OUTPUT
OUTPUT gets, as JSON, the login of each account and for every path parameter the values that exist.
"""
import base64
import json
import sys
import urllib.error
import urllib.request

ORG = "fuzz"
SECRET = "fuzz-secret"
SERVICE = "svc.fuzz_1.0.0_amd64"


class Hub:
    """Sends requests as one account."""

    def __init__(self, url, login, secret):
        self.url = url
        self.header = "Basic " + base64.b64encode(f"{login}:{secret}".encode()).decode()

    def call(self, method, path, body=None):
        """The answer's JSON; anything but a success ends the program."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "/v1" + path, data=data, method=method)
        request.add_header("Authorization", self.header)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            sys.exit(f"fixture: {method} {path}: {error.code} {error.read().decode(errors='replace')}")
        return json.loads(text) if text else None


def service():
    return {
        "label": "a service",
        "url": "svc.fuzz",
        "version": "1.0.0",
        "arch": "amd64",
        "sharable": "multiple",
        "public": True,
        "deployment": '{"services":{}}',
        "deploymentSignature": "signature",
        "userInput": [{"name": "v", "label": "", "type": "string", "defaultValue": "d"}],
    }


def deployment_policy():
    return {
        "label": "a policy",
        "service": {"name": "svc.fuzz", "org": ORG, "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]},
        "properties": [{"name": "p", "value": 1}],
        "constraints": ["p == 1"],
    }


def pattern():
    version = {"version": "1.0.0"}
    return {
        "label": "a pattern",
        "services": [
            {"serviceUrl": "svc.fuzz", "serviceOrgid": ORG, "serviceArch": "amd64", "serviceVersions": [version]}
        ],
    }


def fill(url, root_password):
    root = Hub(url, "root/root", root_password)
    org = f"/orgs/{ORG}"
    root.call("POST", org, {"label": "fuzz", "description": "an organization for the fuzzer", "orgType": "IBM"})
    for name, is_admin in [("admin", True), ("user", False), ("spare", False)]:
        body = {"password": SECRET, "email": f"{name}@example.com", "admin": is_admin}
        root.call("POST", f"{org}/users/{name}", body)
    admin = Hub(url, f"{ORG}/admin", SECRET)
    user = Hub(url, f"{ORG}/user", SECRET)
    for name in ["node", "spare-node", "other-node"]:
        body = {"token": SECRET, "name": name, "pattern": "", "publicKey": "key", "arch": "amd64"}
        user.call("PUT", f"{org}/nodes/{name}", body)
    for name in ["bot", "spare-bot"]:
        user.call("PUT", f"{org}/agbots/{name}", {"token": SECRET, "name": name, "publicKey": "key"})
    user.call("POST", f"{org}/services", service())
    for path in [f"{org}/services/{SERVICE}", f"{org}/nodes/node"]:
        user.call("PUT", f"{path}/policy", {"label": "l", "properties": [{"name": "p", "value": 1}]})
    key = user.call("POST", f"{org}/users/user/apikeys", {"label": "k"})["id"]
    user.call("POST", f"{org}/services/{SERVICE}/dockauths", {"registry": "r", "token": "t"})
    dockauth = user.call("GET", f"{org}/services/{SERVICE}/dockauths")[0]["dockAuthId"]
    user.call("POST", f"{org}/patterns/pat", pattern())
    for path in [f"{org}/services/{SERVICE}", f"{org}/patterns/pat"]:
        user.call("PUT", f"{path}/keys/k.pem", {})
    user.call("POST", f"{org}/business/policies/pol", deployment_policy())
    admin.call("POST", f"{org}/managementpolicies/nmp", {"label": "a management policy"})
    admin.call("PUT", f"{org}/nodes/node/managementStatus/nmp",
               {"agentUpgradePolicyStatus": {"scheduledTime": "2030-01-01T00:00:00Z"}})
    user.call("PUT", f"{org}/nodes/node/agreements/agr", {"services": [{"orgid": ORG, "url": "svc.fuzz"}], "state": "s"})
    user.call("PUT", f"{org}/nodes/node/status", {"connectivity": {}, "services": []})
    user.call("PUT", f"{org}/nodes/node/errors", {"errors": []})
    user.call("PUT", f"{org}/agbots/bot/agreements/agr",
              {"service": {"orgid": ORG, "pattern": "", "url": "svc.fuzz"}, "state": "s"})
    served = {"patternOrgid": ORG, "pattern": "pat", "nodeOrgid": ORG}
    user.call("POST", f"{org}/agbots/bot/patterns", served)
    served = {"businessPolOrgid": ORG, "businessPol": "pol", "nodeOrgid": ORG}
    user.call("POST", f"{org}/agbots/bot/businesspols", served)
    user.call("POST", f"{org}/hagroups/group", {"members": ["node"]})
    node = Hub(url, f"{ORG}/node", SECRET)
    bot = Hub(url, f"{ORG}/bot", SECRET)
    bot.call("POST", f"{org}/nodes/node/msgs", {"message": "m", "ttl": 86400})
    node.call("POST", f"{org}/agbots/bot/msgs", {"message": "m", "ttl": 86400})
    to_node = user.call("GET", f"{org}/nodes/node/msgs")["messages"][0]["msgId"]
    return {
        "logins": {
            "root": ["root/root", root_password],
            "admin": [f"{ORG}/admin", SECRET],
            "user": [f"{ORG}/user", SECRET],
            "node": [f"{ORG}/node", SECRET],
            "agbot": [f"{ORG}/bot", SECRET],
        },
        "values": {
            "organization": [ORG, ORG, ORG, "IBM"],
            "username": ["user", "spare"],
            "node": ["node", "spare-node", "other-node"],
            "agreementbot": ["bot", "spare-bot"],
            "service": [SERVICE],
            "pattern": ["pat"],
            "policy": ["pol", "nmp"],
            "managementpolicy": ["nmp"],
            "hagroup": ["group"],
            "group": ["group"],
            "nmp": ["nmp"],
            "agreement": ["agr"],
            "key": ["k.pem"],
            "keyid": [key],
            "dockauth": [str(dockauth)],
            "msgid": [str(to_node), str(to_node + 1)],
            "entry": [f"{ORG}_pat_{ORG}", f"{ORG}_pol_{ORG}"],
        },
    }


def main():
    url, password_file, output = sys.argv[1:]
    with open(password_file, encoding="utf-8") as file:
        password = file.read().strip()
    with open(output, "w", encoding="utf-8") as file:
        json.dump(fill(url, password), file)


main()
