"""The application behind nginx: a constant answer, and one that tells which connection a request came over."""

import os
import re
import socket
import time

import uwsgi

FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
HANDLER = re.compile("/(sleep|busy)-([0-9]+)ms")


def connection():
    """`FAMILY INODE` of the accepted socket. The kernel gives every socket an inode number of its own."""
    copy = os.dup(uwsgi.connection_fd())
    with socket.socket(fileno=copy) as accepted:
        family = FAMILIES.get(accepted.family, str(accepted.family))
        return f"{family} {os.fstat(copy).st_ino}"


def handle(kind, seconds):
    if kind == "sleep":
        time.sleep(seconds)
        return
    # CPU time of this thread, however long it takes to get it.
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def application(environment, start_response):
    path = environment["PATH_INFO"]
    handler = HANDLER.fullmatch(path)
    if handler:
        handle(handler[1], int(handler[2]) / 1000)
    text = connection() if path == "/connection" else "Hello there!"
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text.encode()]
