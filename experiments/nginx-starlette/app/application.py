"""The application behind nginx: the time and a random number as JSON, and a way to tell which connection a request came over."""

import asyncio
import itertools
import os
import random
import socket
import time

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from uvicorn.protocols.http import h11_impl

FAMILIES = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
