"""A plain server, as a first program in Python has it.

hello: sends 12 bytes to whoever connects and closes, one after the other. echo: sends back what it gets until the client
closes, each connection in a thread of its own.
"""

import argparse
import os
import socket
import threading

GREETING = b"Hello there!"


def listen(options):
    if options.tcp:
        host, port = options.tcp
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.socket(family, socket.SOCK_STREAM)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, int(port)))
    else:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if options.unix and os.path.exists(options.unix):
            os.unlink(options.unix)
        server.bind(options.unix or "\0" + options.abstract)
    server.listen(options.backlog)
    return server


def hello(connection):
    connection.sendall(GREETING)


def echo(connection):
    buffer = bytearray(1 << 16)
    view = memoryview(buffer)
    while count := connection.recv_into(buffer):
        connection.sendall(view[:count])


def handle(connection, answer):
    with connection:
        try:
            answer(connection)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client went away, for example after it saw that the server is ready


def serve_hello(server):
    while True:
        connection, _ = server.accept()
        handle(connection, hello)


def serve_echo(server):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=handle, args=(connection, echo), daemon=True).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--unix", metavar="PATH")
    place.add_argument("--abstract", metavar="NAME")
    place.add_argument("--tcp", nargs=2, metavar=("HOST", "PORT"))
    parser.add_argument("--pattern", choices=["hello", "echo"], required=True)
    parser.add_argument("--backlog", type=int, default=0)
    options = parser.parse_args()
    serve = serve_hello if options.pattern == "hello" else serve_echo
    serve(listen(options))


if __name__ == "__main__":
    main()
