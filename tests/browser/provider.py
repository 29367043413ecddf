"""A real identity provider on a loopback address: glewlwyd of the distribution, with a fresh database in a directory of its own."""
import http.cookiejar
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

SCHEMA = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
WEBAPP = "/usr/share/glewlwyd/webapp"
# The package's own file, with its login of the administrator.
CONFIGURATION = "/etc/glewlwyd/glewlwyd.conf"
ADMINISTRATOR = {"username": "admin", "password": "password"}
REALM = "plant"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Provider:
    """A running provider; its users log in with the password `password of NAME`."""

    def __init__(self, directory):
        os.makedirs(directory)
        self.directory = directory
        self.port = free_port()
        # Another name than the hub's: for a browser, another site.
        self.url = f"http://localhost:{self.port}"
        self.issuer = f"{self.url}/api/{REALM}"
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        )
        self._make_files()
        self.log = open(os.path.join(directory, "log"), "w", encoding="utf-8")
        command = ["glewlwyd", "--config-file", os.path.join(directory, "glewlwyd.conf")]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self._wait()
            self._configure()
        except BaseException:
            self.close()
            raise

    def _make_files(self):
        database = sqlite3.connect(os.path.join(self.directory, "database"))
        with open(SCHEMA, encoding="utf-8") as script:
            database.executescript(script.read())
        database.close()
        pages = os.path.join(self.directory, "webapp")
        # In the package, the name of the pages' configuration leads to a directory that holds it.
        shutil.copytree(WEBAPP, pages, ignore=lambda _, names: [name for name in names if name == "config.json"])
        packaged = os.path.join(WEBAPP, "config.json")
        if os.path.isdir(packaged):
            packaged = os.path.join(packaged, "config.json")
        shutil.copy(packaged, os.path.join(pages, "config.json"))
        with open(CONFIGURATION, encoding="utf-8") as packaged:
            lines = packaged.read().splitlines()
        own = {
            "port": str(self.port),
            "bind_address": '"127.0.0.1"',
            "external_url": f'"{self.url}/"',
            "static_files_path": f'"{pages}/"',
            "log_mode": '"console"',
        }
        lines = [line for line in lines if line.split("=")[0].strip() not in {*own, "log_file"}]
        lines = [line for line in lines if not line.startswith("@include")]
        lines += [f"{name}={value}" for name, value in own.items()]
        path = os.path.join(self.directory, "database")
        lines.append(f'database = {{ type = "sqlite3"; path = "{path}"; }};')
        with open(os.path.join(self.directory, "glewlwyd.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def _wait(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                self.opener.open(f"{self.url}/config", timeout=5).close()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the provider does not start: {self.read_log()}") from error
                time.sleep(0.05)

    def read_log(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def send(self, method, path, body=None):
        """Sends a request to the administration API."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=30) as response:
                text = response.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:500]}: {self.read_log()[-2000:]}") from error

    def _configure(self):
        self.send("POST", "/auth/", ADMINISTRATOR)
        users = self.send("GET", "/mod/user/database")
        users["parameters"]["data-format"]["groups"] = {"multiple": True, "read": True, "write": True}
        self.send("PUT", "/mod/user/database", users)
        self.send("PUT", "/mod/user/database/reset/")
        key = subprocess.run(
            ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            check=True, capture_output=True, text=True,
        ).stdout
        public = subprocess.run(
            ["openssl", "pkey", "-pubout"], input=key, check=True, capture_output=True, text=True
        ).stdout
        self.send("POST", "/mod/plugin/", {
            "module": "oidc", "name": REALM, "display_name": REALM, "enabled": True,
            "parameters": self._realm(key, public),
        })

    def _realm(self, key, public):
        claim = {"type": "string", "mandatory": True, "on-demand": False, "scope": []}
        return {
            "iss": self.issuer, "jwt-type": "rsa", "jwt-key-size": "256", "key": key, "cert": public,
            "subject-type": "public", "access-token-duration": 300, "refresh-token-duration": 300, "code-duration": 60,
            "refresh-token-rolling": True, "allow-non-oidc": False, "auth-type-code-enabled": True,
            "auth-type-token-enabled": False, "auth-type-id-token-enabled": True, "auth-type-none-enabled": False,
            "auth-type-password-enabled": False, "auth-type-client-enabled": False, "auth-type-refresh-enabled": False,
            "jwks-show": True, "pkce-allowed": True, "pkce-required": True, "pkce-method-plain-allowed": False,
            "oauth-ar-iss-id": True, "session-management-allowed": True,
            "session-cookie-name": "GLEWLWYD_OIDC_SID", "session-cookie-expiration": 300,
            "name-claim": "no", "email-claim": "mandatory", "scope-claim": "no",
            "claims": [
                {"name": "groups", "user-property": "groups", **claim},
                {"name": "preferred_username", "user-property": "username", **claim},
            ],
        }

    def add_client(self, client_id, secret, redirect_address):
        self.send("POST", "/client/", {
            "client_id": client_id, "name": client_id, "enabled": True, "confidential": True, "client_secret": secret,
            "password": secret, "redirect_uri": [redirect_address], "authorization_type": ["code"], "scope": [],
            "token_endpoint_auth_method": ["client_secret_basic"],
        })

    def add_user(self, name, groups):
        self.send("POST", "/user/", {
            "username": name, "name": name, "email": f"{name}@plant.example", "enabled": True,
            "password": f"password of {name}", "scope": ["openid", "g_profile"], "groups": groups,
        })

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
