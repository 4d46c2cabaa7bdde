"""The application behind nginx: a constant answer, and one that tells which connection a request came over."""

import os
import socket
import time

from flask import Flask, request

app = Flask(__name__)

FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}


@app.route("/")
def hello():
    return "Hello there!"


@app.route("/sleep-<int:milliseconds>ms")
def sleep(milliseconds):
    time.sleep(milliseconds / 1000)
    return hello()


@app.route("/busy-<int:milliseconds>ms")
def busy(milliseconds):
    """CPU time of this thread, however long it takes to get it."""
    until = time.thread_time_ns() + milliseconds * 1_000_000
    while time.thread_time_ns() < until:
        pass
    return hello()


@app.route("/connection")
def connection():
    """`FAMILY INODE` of the accepted socket. The kernel gives every socket an inode number of its own."""
    accepted = request.environ["gunicorn.socket"]
    family = FAMILIES.get(accepted.family, str(accepted.family))
    return f"{family} {os.fstat(accepted.fileno()).st_ino}"
