"""The application behind nginx: the time and a random number as JSON; and a way to tell which connection was used."""

import asyncio
import datetime
import os
import random
import socket
import time

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}


async def home(request):
    """Different every time, so that nothing on the way can answer from memory."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    return JSONResponse({"timestamp": now, "random": random.random()})


async def sleep(request):
    await asyncio.sleep(request.path_params["milliseconds"] / 1000)
    return await home(request)


async def busy(request):
    until = time.thread_time_ns() + request.path_params["milliseconds"] * 1_000_000
    while time.thread_time_ns() < until:
        pass
    return await home(request)


site = Starlette(
    routes=[
        Route("/", home),
        Route("/sleep-{milliseconds:int}ms", sleep),
        Route("/busy-{milliseconds:int}ms", busy),
    ]
)


async def application(scope, receive, send):
    if scope["type"] == "http" and scope["path"] == "/connection":
        await PlainTextResponse(connection(receive))(scope, receive, send)
    else:
        await site(scope, receive, send)


def connection(receive):
    """`FAMILY INODE` of the accepted socket. The kernel gives every socket an inode number of its own."""
    accepted = receive.__self__.transport.get_extra_info("socket")
    family = FAMILIES.get(accepted.family, str(accepted.family))
    return f"{family} {os.fstat(accepted.fileno()).st_ino}"
