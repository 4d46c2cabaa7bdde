"""The application behind nginx: a file of as many bytes as are asked for, and a way to tell which connection was used."""

import os
import socket
import tempfile

FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}

# What the server reads of the file at a time, where it does not leave that to the kernel.
BLOCK = 65536


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/connection":
        return text(start_response, connection(environ["gunicorn.socket"]))
    size = int(path.rsplit("/", 1)[1])
    start_response("200 OK", [("Content-Type", "application/octet-stream"), ("Content-Length", str(size))])
    return environ["wsgi.file_wrapper"](open(file_of(size), "rb"), BLOCK)


def file_of(size):
    """Made when it is first asked for, which is before anything is measured. Real bytes: holes would not be read."""
    path = os.path.join(tempfile.gettempdir(), str(size))
    if not os.path.exists(path):
        with open(path + ".part", "wb") as file:
            block = bytes(range(256)) * (BLOCK // 256)
            for begin in range(0, size, BLOCK):
                file.write(block[: size - begin])
        os.rename(path + ".part", path)
    return path


def text(start_response, words):
    body = words.encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def connection(accepted):
    """`FAMILY INODE` of the accepted socket. The kernel gives every socket an inode number of its own."""
    family = FAMILIES.get(accepted.family, str(accepted.family))
    return f"{family} {os.fstat(accepted.fileno()).st_ino}"
