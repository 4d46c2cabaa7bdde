"""Runs a fleet on nodes that are not there, in a real cluster, and prints what that costs the API server and the client.

    script/cluster run python3 tests/cluster/simulate.py NODES RECORD LASTHOP

Each node has an entry in the API server and a lease that is renewed. One process is the kubelet of all of them, as far as
a fleet run asks one: Pods begin, write the record RECORD into their logs while time passes, and end once they are deleted.
RECORD is the folder of a run that was labelled machine=NODE; every node's copy has the node's name in that place.
"""

import asyncio
import base64
import hashlib
import http.client
import json
import os
import re
import resource
import ssl
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path

ADDRESS = "10.255.0.253"
SELECTED = "lasthop-simulated=true"
PIECE = 9 << 10
STEP = 1.0
RENEWED = 4.0


def now():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Api:
    """The API server; each thread has a connection of its own."""

    def __init__(self):
        text = Path(os.environ["KUBECONFIG"]).read_text()
        self.host, port = re.search(r'server: "https://([^:"]+):(\d+)"', text).groups()
        self.port = int(port)
        self.headers = {"Authorization": f'Bearer {re.search(r"token: .([0-9a-f]+)", text).group(1)}'}
        self.of_thread = threading.local()

    def connection(self):
        if not hasattr(self.of_thread, "connection"):
            context = ssl._create_unverified_context()
            self.of_thread.connection = http.client.HTTPSConnection(self.host, self.port, context=context)
        return self.of_thread.connection

    def ask(self, method, path, body=None, kind="application/json"):
        headers = {**self.headers, "Content-Type": kind}
        self.connection().request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self.connection().getresponse()
        data = response.read()
        if response.status >= 400 and response.status not in (404, 409):
            raise RuntimeError(f"{method} {path}: {data[:500]!r}")
        return data

    def patch(self, path, body):
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path):
        self.connection().request("GET", path, headers=self.headers)
        response = self.connection().getresponse()
        for line in response:
            yield json.loads(line)


def log(record, node):
    """The lines that the Pod of a node writes, and when."""
    files = {}
    for path in sorted(path for path in record.rglob("*") if path.is_file() and path.name != "seal"):
        files[str(path.relative_to(record))] = path.read_bytes().replace(b"NODE", node.encode())
    run = record.name.replace("NODE", node)
    trials = files["trials.jsonl"].splitlines(keepends=True)
    seconds = json.loads(files["end.json"])["took_ns"] / 1e9
    steps = max(1, int(seconds / STEP))
    lines = []
    deflate = zlib.compressobj()

    def say(at, entry, data=b""):
        part = deflate.compress(json.dumps(entry).encode() + b"\n" + data) + deflate.flush(zlib.Z_SYNC_FLUSH)
        for begin in range(0, len(part), PIECE):
            encoded = base64.b64encode(part[begin : begin + PIECE])
            lines.append((at, b"lasthop-record %d %s\n" % (len(lines), encoded)))

    def piece(at, name, data, offset=0):
        say(at, {"piece": {"file": name, "at": offset, "length": len(data)}}, data)

    say(0.0, {"run": run})
    offset = 0
    for step in range(steps):
        part = b"".join(trials[len(trials) * step // steps : len(trials) * (step + 1) // steps])
        if part:
            piece(step * STEP, "trials.jsonl", part, offset)
            offset += len(part)
    for name, data in files.items():
        if name != "trials.jsonl":
            piece(seconds, name, data)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    say(seconds, {"end": {"code": 0, "files": sums}})
    return lines


class Kubelet:
    """The kubelet of all simulated nodes."""

    def __init__(self, api, nodes, record):
        self.api, self.nodes, self.record = api, nodes, record
        self.node_of, self.ended = {}, {}
        self.pool = ThreadPoolExecutor(16)
        self.loop = asyncio.new_event_loop()
        self.written = 0

    def register(self, node):
        status = {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": node}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "conditions": [
                {"type": kind, "status": value, "reason": "Simulated", "message": "", "lastHeartbeatTime": now()[:19] + "Z"}
                for kind, value in [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False")]
            ],
        }
        labels = {"lasthop-simulated": "true", "node.kubernetes.io/instance-type": "simulated"}
        self.api.ask("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": labels}, "status": status})
        self.api.patch(f"/api/v1/nodes/{node}/status", {"status": status})
        lease = {"metadata": {"name": node}, "spec": self.lease(node)}
        self.api.ask("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)

    @staticmethod
    def lease(node):
        return {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now()}

    def renew(self):
        folder = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        while True:
            begin = time.monotonic()
            list(self.pool.map(lambda node: self.api.patch(f"{folder}/{node}", {"spec": self.lease(node)}), self.nodes))
            time.sleep(max(0.0, RENEWED - (time.monotonic() - begin)))

    def follow(self):
        while True:
            for event in self.api.watch("/api/v1/pods?watch=true&labelSelector=lasthop%2Ffleet"):
                self.pool.submit(self.pod, event["object"])

    def pod(self, pod):
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        path = f'/api/v1/namespaces/{pod["metadata"]["namespace"]}/pods/{name}'
        if node not in self.nodes:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if name in self.ended:
                self.loop.call_soon_threadsafe(self.ended[name].set)
            self.api.ask("DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["status"].get("phase") == "Pending" and name not in self.node_of:
            self.ended[name] = asyncio.Event()
            self.node_of[name] = node
            container = pod["spec"]["containers"][0]
            state = {"running": {"startedAt": now()[:19] + "Z"}}
            one = {"name": container["name"], "image": container["image"], "imageID": "", "ready": True, "restartCount": 0}
            running = {"phase": "Running", "hostIP": ADDRESS, "containerStatuses": [{**one, "state": state}]}
            self.api.patch(f"{path}/status", {"status": running})

    async def answer(self, reader, writer):
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            name = request.split()[1].split("?")[0].split("/")[3]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
            begin = time.monotonic()
            for at, line in log(self.record, self.node_of[name]):
                await asyncio.sleep(max(0.0, begin + at - time.monotonic()))
                writer.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.written += len(line)
                await writer.drain()
            await self.ended[name].wait()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def serve(self):
        key, certificate = "/run/simulated.key", "/run/simulated.crt"
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={ADDRESS}", "-days", "1"]
        subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self.answer, ADDRESS, 10250, ssl=context, backlog=1024))
        self.loop.run_forever()

    def begin(self):
        subprocess.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "nodes"], check=True)
        list(self.pool.map(self.register, self.nodes))
        for task in (self.serve, self.renew, self.follow):
            threading.Thread(target=task, daemon=True).start()

    def schedulable(self):
        nodes = json.loads(self.api.ask("GET", "/api/v1/nodes"))["items"]
        return sum(1 for node in nodes if node["metadata"]["name"] in self.nodes and not node["spec"].get("taints"))


def processor_seconds():
    """CPU time by the name of the program."""
    used = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        fields = rest.split()
        used[name] = used.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def memory(program):
    for status in Path("/proc").glob("[0-9]*/status"):
        text = status.read_text()
        if text.startswith(f"Name:\t{program}\n"):
            return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024
    return 0.0


def requests(api):
    """What the API server has counted, by verb and resource: requests, and bytes of their replies."""
    found = {}
    pattern = re.compile(r"^(apiserver_request_total|apiserver_response_sizes_sum)\{(.*)\} (\S+)$", re.MULTILINE)
    for metric, labels, value in pattern.findall(api.ask("GET", "/metrics").decode()):
        label = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        what = "/".join(part for part in (label["resource"], label["subresource"]) if part)
        row = found.setdefault((label["verb"], what), [0.0, 0.0])
        row[metric.endswith("sum")] += float(value)
    return found


def difference(after, before):
    return {key: [a - b for a, b in zip(row, before.get(key, [0.0, 0.0]))] for key, row in after.items()}


def main(count, record, lasthop):
    api = Api()
    kubelet = Kubelet(api, {f"simulated-{number}": None for number in range(int(count))}, Path(record))
    kubelet.begin()
    while kubelet.schedulable() < len(kubelet.nodes):
        time.sleep(1)
    time.sleep(5)
    idle, idle_since = processor_seconds(), time.monotonic()
    time.sleep(20)
    idle_seconds = time.monotonic() - idle_since
    before = processor_seconds()
    idle = {name: (value - idle.get(name, 0.0)) / idle_seconds for name, value in before.items()}
    counted, begin = requests(api), time.monotonic()
    command = [lasthop, "fleet", "run", "sockets", "--nodes", SELECTED, "--cpus", "1", "--budget", "20s", "--format", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - begin, processor_seconds()
    client = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = difference(requests(api), counted)
    verified = ran.stderr.count("complete and verified")
    if verified != len(kubelet.nodes):
        sys.exit(f"only {verified} of {count} records came back (code {ran.returncode}):\n{ran.stderr[-2000:]}")
    print(f"{verified} records of {kubelet.written / verified / 1e3:.0f} kB as logs, in {seconds:.0f} s")
    own = client.ru_utime + client.ru_stime
    print(f"lasthop: {own:.1f} s of CPU time, {client.ru_maxrss / 1024:.0f} MB")
    for name in ("kube-apiserver", "etcd", "kube-controller", "kube-scheduler"):
        used = after.get(name, 0.0) - before.get(name, 0.0)
        print(f"{name}: {used:.1f} s of CPU time ({idle.get(name, 0.0) * seconds:.1f} s if idle), {memory(name):.0f} MB")
    print("| request | times | bytes of all replies |\n|---|--:|--:|")
    for (verb, what), (times, size) in sorted(asked.items(), key=lambda row: -row[1][0])[:25]:
        if times:
            print(f"| {verb} {what} | {times:.0f} | {size / 1e6:.2f} MB |")


main(*sys.argv[1:])
