#!/usr/bin/env python3
"""Sends each request to the next of several exchanges, whatever connection it came on.

    round_robin_proxy.py PORT_FILE EXCHANGE_URL...

Writes the port on which it answers to PORT_FILE and runs until it is stopped. Connections to the exchanges are kept.
"""
import http.client
import http.server
import itertools
import os
import sys
import threading
import urllib.parse

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"}


class Proxy(http.server.BaseHTTPRequestHandler):
    """One client's connection; it has one connection to each exchange."""

    protocol_version = "HTTP/1.1"
    # Headers and body of an answer are two writes: without this the second waits for the first one's acknowledgement.
    disable_nagle_algorithm = True
    exchanges = []
    turns = itertools.count()
    lock = threading.Lock()

    def setup(self):
        super().setup()
        self.connections = {}

    def finish(self):
        for connection in self.connections.values():
            connection.close()
        super().finish()

    def forward(self):
        with Proxy.lock:
            turn = next(Proxy.turns) % len(Proxy.exchanges)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
        if "Content-Length" in self.headers:
            headers["Content-Length"] = str(size)
        connection = self.connections.get(turn)
        if connection is None:
            address = Proxy.exchanges[turn]
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
            self.connections[turn] = connection
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        if answer.status not in (204, 304) and self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = forward

    def log_message(self, *_):
        """Says nothing: the exchanges have logs of their own."""


def main():
    port_file, *urls = sys.argv[1:]
    Proxy.exchanges = [urllib.parse.urlsplit(url) for url in urls]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    with open(port_file + ".new", "w") as file:
        file.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
