#!/usr/bin/env python3
"""Makes the pictures of the manual from the console of a demonstration.

Usage: pictures.py URL PASSWORD-FILE PROFILE-DIRECTORY DIRECTORY
"""
import base64
import json
import os
import sys
import time
import urllib.error
import urllib.request

import png
from checks import require
from webdriver import Browser

ENTER = "\ue007"
WIDTH = 1200
# Bytes of all pictures: they are a part of the program.
MOST_BYTES = 600 * 1024
LIST = os.path.join(os.path.dirname(__file__), "../../docs/images/pictures.json")


class Api:
    """The API as root."""

    def __init__(self, url, password):
        self.url = url + "/v1"
        self.login = "Basic " + base64.b64encode(f"root/root:{password}".encode()).decode()

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", self.login)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def wait(what, read):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        value = read()
        if value:
            return value
        time.sleep(0.2)
    sys.exit(f"waited in vain: {what}")


def prepare(api):
    """A site, a fault domain and a saved view for what the demonstration has, and something that needs a person."""
    nodes = sorted(api.send("GET", "/orgs/plant/nodes")["nodes"])
    for number, node in enumerate(name.split("/")[1] for name in nodes):
        policy = api.send("GET", f"/orgs/plant/nodes/{node}/policy")
        kept = [one for one in policy["properties"] if one["name"] not in ("site", "line")]
        properties = kept + [{"name": "site", "value": "north" if number < 2 else "south"}, {"name": "line", "value": number + 1}]
        body = {"properties": properties, "constraints": policy["constraints"], "deployment": policy["deployment"]}
        api.send("PUT", f"/orgs/plant/nodes/{node}/policy?noheartbeat=true", body)
        api.send("PATCH", f"/orgs/plant/nodes/{node}/orchestration/spec", {"faultDomain": f"fd:/plant/hall-{number % 2 + 1}"})
    api.send("PUT", "/orgs/plant/agbot/views/north", {"filter": 'site == "north"', "description": "hall with the furnace"})
    deployed = {"name": "label-printer", "org": "plant", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]}
    service = {"label": "label-printer", "url": "label-printer", "version": "1.0.0", "arch": "amd64", "sharable": "multiple", "deployment": "", "deploymentSignature": ""}
    api.send("POST", "/orgs/plant/services", service)
    api.send("POST", "/orgs/plant/business/policies/print-labels", {
        "label": "print labels", "service": deployed, "properties": [], "constraints": ["printer == true"],
        "orchestration": {"mode": "replicated", "replicas": 1},
    })
    wait("the properties", lambda: api.send("GET", "/orgs/plant/agbot/nodes?filter=site%20%3D%3D%20%22north%22")["nodes"])
    wait("a problem", lambda: api.send("GET", "/orgs/plant/agbot/overview")["attention"])


def main():
    url, password, profile, directory = sys.argv[1:5]
    with open(password, encoding="utf-8") as file:
        secret = file.read().strip()
    with open(LIST, encoding="utf-8") as file:
        wanted = json.load(file)
    prepare(Api(url, secret))
    browser = Browser(profile)
    total = 0
    try:
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        browser.command("Emulation.setScrollbarsHidden", hidden=True)
        browser.open(url + "/console/login")
        browser.type("input[name=org]", "root")
        browser.type("input[name=user]", "root")
        browser.type("input[name=secret]", secret + ENTER)
        browser.wait("the first page", "return location.pathname === '/console/orgs'")
        for picture in wanted:
            browser.command("Emulation.setDeviceMetricsOverride", width=WIDTH, height=picture["height"], deviceScaleFactor=1, mobile=False)
            browser.open(url + picture["page"])
            titles = browser.run("return [...document.querySelectorAll('h1')].map(one => one.textContent)")
            require(len(titles) == 1, f"{picture['page']} has the titles {titles}")
            refused = browser.run("return document.querySelector('#live') === null")
            require(not refused, f"{picture['page']} is not shown: {titles}")
            shot = browser.command("Page.captureScreenshot", format="png")
            data = png.smaller(base64.b64decode(shot["data"]))
            require(png.size(data) == (WIDTH, picture["height"]), f"{picture['file']} has the size {png.size(data)}")
            total += len(data)
            with open(os.path.join(directory, picture["file"]), "wb") as file:
                file.write(data)
        require(total < MOST_BYTES, f"the pictures have {total} bytes")
        print(f"{len(wanted)} pictures of the console, {total // 1024} KiB")
    finally:
        browser.close()


main()
