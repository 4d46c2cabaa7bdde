"""A plain client that counts messages, driven by lasthop.

It speaks the lines of `lasthop drive`: one JSON object a line, requests on standard input, a reply to each on standard
output. What it does between two lines is what the program of the study did: connect, receive, close, count (hello); or
send, receive all of it back, count (echo). It takes no time of single messages, so it has no latencies to report.
"""

import json
import resource
import signal
import socket
import sys
import time

PROTOCOL = 1


class WrongAnswer(Exception):
    """The reply is not what was asked for."""


class Case:
    """One endpoint and what is said to it."""

    def __init__(self, spec):
        if spec["endpoint"].get("tls"):
            raise ValueError("this driver speaks plain sockets only")
        if spec.get("connections", 1) != 1 or spec.get("threads", 1) != 1:
            raise ValueError("this driver holds one connection")
        (kind, address), = spec["endpoint"]["address"].items()
        self.family, self.address = place(kind, address)
        self.nodelay = spec.get("socket", {}).get("nodelay", False)
        self.timeout = spec.get("timeouts", {}).get("request_ns", 10**10) / 1e9
        (self.pattern, parameters), = spec["protocol"].items()
        self.opened = 0
        self.connection = None
        if self.pattern == "hello":
            self.expected = parameters["expect"].encode()
            self.exchange = self.hello
        elif self.pattern == "echo":
            self.expected = bytes(at * 31 % 251 for at in range(parameters["size"]))
            self.exchange = self.echo
        else:
            raise ValueError(f"this driver does not know the protocol {self.pattern}")

    def connect(self):
        connection = socket.socket(self.family, socket.SOCK_STREAM)
        # No timeout of the socket: it would make the socket non-blocking, and a non-blocking connect to a Unix socket
        # whose short backlog is full fails at once where the blocking one of a plain program waits its turn.
        if self.nodelay and self.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect(self.address)
        self.opened += 1
        return connection

    def hello(self):
        with self.connect() as connection:
            data = connection.recv(32)
            while 0 < len(data) < len(self.expected):
                more = connection.recv(32)
                if not more:
                    break
                data += more
        if data != self.expected:
            raise WrongAnswer(f"expected {self.expected!r}, got {data!r}")

    def echo(self):
        if self.connection is None:
            self.connection = self.connect()
        self.connection.sendall(self.expected)
        left = len(self.expected)
        parts = []
        while left:
            part = self.connection.recv(left)
            if not part:
                raise ConnectionResetError("the server closed the connection")
            parts.append(part)
            left -= len(part)
        if b"".join(parts) != self.expected:
            raise WrongAnswer("the reply is not the message that was sent")

    def proof(self):
        """What a live connection is, read from its socket."""
        keeps = self.connection is not None
        connection = self.connection if keeps else self.connect()
        nodelay = None
        if connection.family != socket.AF_UNIX:
            nodelay = bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        families = {socket.AF_UNIX: "unix", socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
        proof = {
            "family": families[connection.family],
            "peer": peer_name(connection),
            "tls_version": None,
            "tls_cipher": None,
            "reused": keeps,
            "nodelay": nodelay,
        }
        if not keeps:
            connection.close()
        return proof

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def place(kind, address):
    if kind == "unix":
        return socket.AF_UNIX, address
    if kind == "abstract":
        return socket.AF_UNIX, "\0" + address
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, int(port))


def peer_name(connection):
    peer = connection.getpeername()
    if connection.family == socket.AF_INET:
        return f"{peer[0]}:{peer[1]}"
    if connection.family == socket.AF_INET6:
        return f"[{peer[0]}]:{peer[1]}"
    if isinstance(peer, bytes):
        return "@" + peer[1:].decode(errors="replace")
    return peer


def error_class(error):
    if isinstance(error, WrongAnswer):
        return "wrong-content"
    if isinstance(error, (ConnectionRefusedError, FileNotFoundError)):
        return "refused"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "reset"
    if isinstance(error, OSError) and error.errno == 99:
        return "no-port"
    return "os"


def run(case, duration_ns):
    """Exchanges messages until the time is over. Yields how many, how long they took, and the errors."""
    clock = time.monotonic_ns
    count, errors = 0, {}
    start = last = clock()
    end = start + duration_ns
    while last < end:
        try:
            case.exchange()
            count += 1
        except TimeoutError:
            raise  # the whole trial is too late
        except (OSError, WrongAnswer) as error:
            note = errors.setdefault(error_class(error), {"count": 0, "first": str(error)})
            note["count"] += 1
            case.close()
        last = clock()
    return count, last - start, errors


def trial(case, phases):
    opened = case.opened
    warm, _, errors = run(case, phases["warm_up_ns"]) if phases["warm_up_ns"] else (0, 0, {})
    before = resource.getrusage(resource.RUSAGE_SELF)
    count, elapsed, measured_errors = run(case, phases["measure_ns"])
    after = resource.getrusage(resource.RUSAGE_SELF)
    for name, error in measured_errors.items():
        errors.setdefault(name, {"count": 0, "first": error["first"]})["count"] += error["count"]
    if count == 0:
        raise WrongAnswer("; ".join(f"{name}: {error['first']}" for name, error in errors.items()))
    return {
        "elapsed_ns": elapsed,
        "requests": count,
        "requests_total": warm + count,
        "bytes_received": count * len(case.expected),
        "service_time": None,
        "phases": {},
        "errors": errors,
        "connections_opened": case.opened - opened,
        "cost": {
            "user_ns": round((after.ru_utime - before.ru_utime) * 1e9),
            "system_ns": round((after.ru_stime - before.ru_stime) * 1e9),
            "voluntary_switches": after.ru_nvcsw - before.ru_nvcsw,
            "involuntary_switches": after.ru_nivcsw - before.ru_nivcsw,
            "system_calls": 0,
        },
        "engine": "blocking",
    }


def too_late(_signal, _frame):
    raise TimeoutError("no answer in time")


def answer(cases, request):
    (verb, body), = request.items()
    name = body["case"]
    stage = {"prepare": "spec", "trial": "trial", "close": "trial"}[verb]
    try:
        if verb == "prepare":
            case = Case(body["spec"])
            signal.setitimer(signal.ITIMER_REAL, case.timeout)
            stage = "connect"
            case.connect().close()
            case.opened = 0
            stage = "verify"
            case.exchange()
            case.exchange()
            cases[name] = case
            return {"prepared": {"case": name, "proof": case.proof()}}
        if verb == "trial":
            seconds = sum(body["phases"].values()) / 1e9
            signal.setitimer(signal.ITIMER_REAL, seconds + cases[name].timeout)
            return {"trial": {"case": name, "result": trial(cases[name], body["phases"])}}
        cases.pop(name).close()
        return {"closed": {"case": name}}
    except (OSError, WrongAnswer, ValueError, KeyError) as error:
        return {"failed": {"case": name, "stage": stage, "cause": f"{type(error).__name__}: {error}"}}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def say(reply):
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def main():
    signal.signal(signal.SIGALRM, too_late)
    cases = {}
    version = ".".join(str(part) for part in sys.version_info[:3])
    say({"hello": {"protocol": PROTOCOL, "driver": "python client", "version": version}})
    for line in sys.stdin:
        say(answer(cases, json.loads(line)))


if __name__ == "__main__":
    main()
