"""A small HTTP server on a Unix socket or a TCP port: put your own application in its place."""

import argparse
import os
import socket
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave in one piece: two pieces would meet the delayed acknowledgement of TCP

    def setup(self):
        self.disable_nagle_algorithm = self.server.address_family != socket.AF_UNIX
        super().setup()

    def do_GET(self):
        body = b"Hello there!"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingMixIn, TCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address, backlog):
        unix = isinstance(address, str)
        self.address_family = socket.AF_UNIX if unix else socket.AF_INET
        self.request_queue_size = backlog
        if unix and os.path.exists(address):
            os.unlink(address)
        super().__init__(address, Hello)

    def get_request(self):
        connection, address = super().get_request()
        return connection, address or ("", 0)  # clients of a Unix socket have no address


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--unix", metavar="PATH")
    place.add_argument("--tcp", nargs=2, metavar=("HOST", "PORT"))
    parser.add_argument("--backlog", type=int, default=1024)
    options = parser.parse_args()
    address = options.unix or (options.tcp[0], int(options.tcp[1]))
    Server(address, options.backlog).serve_forever()


if __name__ == "__main__":
    main()
