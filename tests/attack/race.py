# Runs as the account of the servers, and is none of them. Exchanges whatever it can write for links to what is root's, for
# pipes, for programs of its own and for sockets of its own, and puts it back after a while, so that the run goes on. What
# stands in the place of a server passes everything on to the real one: its answers are right, and only who it is tells it
# from the server.
#
# Arguments: `files` or `ports`, a seed, this one's share of the services (1/2), then what is root's: a folder, a file, a
# closed folder with a socket of each kind; then a folder for marks, and the names of files that recipes render. Standard input names what is below the
# sandboxes, a path in each line. At its end this prints what was done how often, and what was passed on when.
import ctypes
import json
import os
import random
import re
import socket
import stat
import struct
import sys
import threading
import time
import zlib

role, seed, share, folder, file, closed, marks = sys.argv[1:8]
names = set(sys.argv[8:])
number, all_of_us = map(int, share.split("/"))
random.seed(int(seed))
libc = ctypes.CDLL(None)
ASIDE = ".race-"
done, passed, tag = {}, {}, 0


def count(what):
    done[what] = done.get(what, 0) + 1


# Another racer, the run or its end may have been here, always.
def can(call, *arguments):
    try:
        call(*arguments)
        return True
    except OSError:
        return False


def listed(path):
    try:
        return [name for name in os.listdir(path) if not name.startswith(ASIDE)]
    except OSError:
        return []


def remove(path):
    if can(os.unlink, path):
        return
    try:
        inside = os.listdir(path)
    except OSError:
        return
    for name in inside:
        remove(os.path.join(path, name))
    can(os.rmdir, path)


def exchange(one, other):
    """Both names at once, whatever they name."""
    return libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0


def kind_of(path):
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    kinds = {stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFREG: "file"}
    return kinds.get(stat.S_IFMT(mode), "other")


# What stands in the place of a server.


def pump(source, sink, place=None):
    """`place`: whose replies these are. The millisecond is that before a reply is passed on."""
    try:
        while data := source.recv(65536):
            if place:
                key = (place, int(time.time() * 1000))
                passed[key] = passed.get(key, 0) + 1
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        can(end.shutdown, socket.SHUT_RDWR)


def stand_in(listener, place, connect):
    """Accepts until the listener is shut down. Without a server to pass things on to, it sends back what it gets."""

    def serve(client):
        try:
            server = connect()
        except OSError:
            server = client
        if server is not client:
            threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client, place)

    def accept():
        while True:
            try:
                client, peer = listener.accept()
            except OSError:
                return
            if listener.family == socket.AF_INET and peer[1] in ours:
                # Between this one and the real server the kernel chooses.
                met.add(peer[1])
                client.close()
                continue
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def end(listener):
    can(listener.shutdown, socket.SHUT_RDWR)
    listener.close()


# What files, folders and sockets are exchanged for: each makes something at `aside`, where what was at `path` will be.


def link_to(target):
    return lambda path, aside: os.symlink(target, aside)


def pipe(path, aside):
    os.mkfifo(aside)


def program(path, aside):
    """One that says who runs it, and then is what was there."""
    write_program(path, aside, program_kind(path), aside)


PROGRAMS = {
    ".py": """import os
try: open('{mark}-%d' % os.geteuid(), 'a').close()
except OSError: pass
exec(compile(open('{original}').read(), '{original}', 'exec'))
""",
    ".mjs": """import fs from 'node:fs';
try {{ fs.writeFileSync('{mark}-' + process.geteuid(), ''); }} catch {{}}
await import('{original}');
""",
    ".php": "<?php @touch('{mark}-' . getmypid()); include '{original}';\n",
    ".ru": "(File.write('{mark}-%d' % Process.euid, '') rescue nil)\ninstance_eval(File.read('{original}'), '{original}')\n",
    ".rb": "(File.write('{mark}-%d' % Process.euid, '') rescue nil)\nload '{original}'\n",
    "": "#!/bin/sh\n: >>'{mark}'-$(id -u)\nexec '{original}' \"$@\"\n",
}


def write_program(path, original, ending, at):
    mark = os.path.join(marks, os.path.basename(path))
    with open(at, "x") as made:
        made.write(PROGRAMS[ending].format(mark=mark, original=original))
    os.chmod(at, 0o755)


def program_kind(path):
    """How a file is executed: by its ending, or because it begins as a program does; None if it is none."""
    ending = os.path.splitext(path)[1]
    if ending in PROGRAMS and ending:
        return ending
    try:
        with open(path, "rb") as opened:
            return "" if opened.read(4)[:2] in (b"#!", b"\x7fE") else None
    except OSError:
        return None


def folder_of_links(path, aside):
    os.mkdir(aside, 0o755)
    for name in names | set(listed(path)):
        os.symlink(folder if name == "app" else file, os.path.join(aside, name))


def folder_of_programs(path, aside):
    """The same names: programs of its own, links to the rest."""
    # What is below `path` will be below `aside`.
    below = [(path, aside, aside)]
    while below:
        now, then, made = below.pop()
        os.mkdir(made, 0o755)
        for name in listed(now):
            one, original, at = (os.path.join(place, name) for place in (now, then, made))
            if kind_of(one) == "folder":
                below.append((one, original, at))
            elif (ending := program_kind(one)) is not None:
                write_program(one, original, ending, at)
            else:
                os.symlink(original, at)


def socket_kind(path):
    """Stream, datagram or seqpacket, as the kernel says; a stream where nobody has bound it any more."""
    with open("/proc/net/unix", "rb") as opened:
        rows = [line.split() for line in opened]
    kinds = [int(row[4], 16) for row in rows if row[7:] == [os.fsencode(path)]]
    return kinds[0] if kinds else socket.SOCK_STREAM


def roots_socket(path, aside):
    os.symlink(os.path.join(closed, str(int(socket_kind(path)))), aside)


def stranger(path, aside):
    kind = socket_kind(path)
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(aside)
    os.chmod(aside, 0o666)

    def connect():
        server = socket.socket(socket.AF_UNIX, kind)
        server.connect(aside)
        return server

    if kind == socket.SOCK_DGRAM:
        # Nobody accepts, and the server says nothing that could be counted: what is passed on to it is.
        threading.Thread(target=lambda: can(lambda: pump(listener, connect(), path)), daemon=True).start()
    else:
        listener.listen(128)
        stand_in(listener, path, connect)
    return lambda: end(listener)


# What only lasthop may read: a server that reads it would fill the memory with it.
ENDLESS = ("log", ".pid", ".json")

later, busy = [], {}


def swap(own, what, path, make, hold):
    """Exchanges a path for what `make` makes, and puts it back after so many seconds."""
    global tag
    tag += 1
    aside = os.path.join(os.path.dirname(path), f"{ASIDE}{number}-{tag}{os.path.splitext(path)[1]}")
    finish = None
    try:
        finish = make(path, aside)
        swapped = exchange(aside, path)
    except OSError:
        swapped = False
    if not swapped:
        remove(aside)
        if finish:
            finish()
        return False

    def back():
        if kind_of(path) == "other" and stat.S_ISFIFO(os.lstat(path).st_mode):
            # Whoever waits for a writer goes on.
            can(lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
        if exchange(aside, path):
            remove(aside)
        if finish:
            finish()
        busy.pop(own, None)

    count(what)
    busy[own] = True
    later.append((time.monotonic() + hold, back))
    return True


def put_back(all_of_it=False):
    now = time.monotonic()
    for entry in [entry for entry in later if all_of_it or entry[0] <= now]:
        later.remove(entry)
        can(entry[1])


def moment():
    return random.choice([0.0005, 0.005, 0.05])


def while_():
    """As long as some trials, so that what a trial does may be led elsewhere from its begin to its end."""
    return random.choice([0.05, 0.15, 0.45, 1.0])


PLANTED = {
    **dict.fromkeys(("tls", "files", "certs", "programs", "data"), folder),
    **dict.fromkeys(("key.pem", "p", "log", "place.json", "authority.pem"), file),
    "socket": os.path.join(closed, "1"),
}


def plant_all(own):
    """Links where lasthop or a server may be about to make something."""
    links = [link for name, to in PLANTED.items() if can(os.symlink, to, link := os.path.join(own, name))]
    for _ in links:
        count("links planted")
    later.append((time.monotonic() + moment(), lambda: [can(os.unlink, link) for link in links]))


def walk(own):
    found, folders = [], [own]
    while folders and len(found) < 300:
        at = folders.pop(0)
        for name in listed(at):
            path = os.path.join(at, name)
            kind = kind_of(path)
            if kind:
                found.append((kind, path))
            if kind == "folder" and path.count("/") - own.count("/") < 4:
                folders.append(path)
    return found


def attack_programs(own):
    """Before anybody runs them, and for as long as that may take."""
    found = walk(own)
    programs = [path for kind, path in found if kind == "file" and program_kind(path) is not None]
    folders = [path for kind, path in found if kind == "folder" and any(one.startswith(path + "/") for one in programs)]
    if folders and random.random() < 0.6:
        swap(own, "folders exchanged for own programs", random.choice(folders), folder_of_programs, RUNS)
    else:
        for path in programs:
            swap(own, "files exchanged for own programs", path, program, RUNS)


def attack_socket(own, path):
    if random.random() < 0.5:
        swap(own, "sockets exchanged for links to root's", path, roots_socket, while_())
    elif random.random() < 0.9:
        swap(own, "sockets exchanged for own", path, stranger, while_())
    else:
        swap(own, "sockets exchanged for links to root's", path, link_to(file), moment())


def attack_file(own, path):
    choices = [("files exchanged for links to root's", link_to(file)), ("files exchanged for pipes", pipe)]
    if path.endswith(ENDLESS):
        choices.append(("files exchanged for links to devices", link_to("/dev/zero")))
    what, make = random.choice(choices)
    swap(own, what, path, make, moment())


def attack_folder(own, path):
    if random.random() < 0.5:
        swap(own, "folders exchanged for links to root's", path, link_to(folder), moment())
    else:
        swap(own, "folders exchanged for own with links", path, folder_of_links, moment())


# Most services must start, or nothing would be measured: only some are attacked before there is time for that.
START = 0.5
# As long as a server and its driver may take to read their programs.
RUNS = 2.5


def attack_new(own):
    """A service that was handed over an instant ago. Says whether the attack goes on while it starts."""
    chance = random.random()
    if chance < 0.3:
        attack_programs(own)
    elif chance < 0.4:
        plant_all(own)
    return chance > 0.9


def attack(own, starts):
    of = {kind: [] for kind in ("socket", "file", "folder", "other")}
    for kind, path in walk(own):
        of[kind].append(path)
    chance = random.random()
    if of["socket"] and (starts or chance < 0.7):
        attack_socket(own, random.choice(of["socket"]))
    elif starts:
        return
    elif of["file"] and chance < 0.85:
        attack_file(own, random.choice(of["file"]))
    elif of["folder"] and chance < 0.95:
        attack_folder(own, random.choice(of["folder"]))
    else:
        plant_all(own)


def attack_closed(path):
    """What is in a folder of root's. A success is itself what should not be."""
    if os.lstat(os.path.dirname(path)).st_uid == os.geteuid():
        return
    count("things of root's tried")
    can_write = kind_of(path) == "file" and can(lambda: os.close(os.open(path, os.O_WRONLY)))
    can_replace = swap(path, "things of root's replaced", path, link_to(file), moment())
    # It may have been handed over meanwhile.
    if (can_write or can_replace) and os.lstat(os.path.dirname(path)).st_uid != os.geteuid():
        count("open: " + path)


def is_writable(path):
    return os.access(path, os.W_OK) and kind_of(path) == "folder"


def race_for_files(told):
    known, seen = [], {}
    while told(known):
        put_back()
        known[:] = filter(kind_of, known)
        owns = filter(is_writable, known)
        mine = [own for own in owns if zlib.crc32(own.encode()) % all_of_us == number]
        now = time.monotonic()
        for own in mine:
            if own not in seen:
                seen[own] = now if attack_new(own) else now + START
            if own not in busy and random.random() < 0.05:
                attack(own, now < seen[own])
        if known and random.random() < 0.1:
            can(attack_closed, random.choice(known))
        time.sleep(0.002)
    put_back(all_of_it=True)


# Ports: those that a server is about to take, and those that it shares.
ours, met = set(), set()
ADDRESS = re.compile(rb"127\.0\.0\.1[: \0](\d{4,5})\b")


def pass_on_to(port):
    def connect():
        for _ in range(16):
            server = socket.socket()
            server.bind(("127.0.0.1", 0))
            # Before anybody can accept it.
            ours.add(server.getsockname()[1])
            server.connect(("127.0.0.1", port))
            time.sleep(0.005)
            if server.getsockname()[1] not in met:
                return server
            server.close()
        raise OSError("nobody else is there")

    return connect


def listen_at(port):
    listener = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        listener.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        return None
    return listener


NETWORK = os.readlink("/proc/self/ns/net")


def commands(seen):
    """Of the processes of this account in this network, each until it has been one for a while."""
    pids = set(filter(str.isdigit, os.listdir("/proc")))
    for pid in set(seen) - pids:
        del seen[pid]
    for pid in pids:
        seen[pid] = seen.get(pid, 0) + 1
        if seen[pid] > 50:
            continue
        try:
            if os.readlink(f"/proc/{pid}/ns/net") == NETWORK:
                yield read(f"/proc/{pid}/cmdline")
        except OSError:
            # Somebody else's.
            pass


def configurations(known, seen):
    """Files of services, each once, as soon as they can be read."""
    for own in filter(is_writable, known):
        for path in [path for kind, path in walk(own) if kind == "file" and path not in seen]:
            seen.add(path)
            try:
                yield read(path)
            except OSError:
                pass


def read(path):
    with open(path, "rb") as opened:
        return opened.read(65536)


def race_for_ports(told):
    known, files, processes, tried = [], set(), {}, {}
    while told(known):
        put_back()
        known[:] = filter(kind_of, known)
        for text in [*commands(processes), *configurations(known, files)]:
            for port in map(int, ADDRESS.findall(text)):
                # Whoever is about to listen may be kept from it once; most must be able to, or nothing would be measured.
                tried.setdefault(port, 0 if random.random() < 0.2 else 1)
        there = listening()
        for port in [port for port in tried if port not in busy and port < 65536]:
            # A server that shares its port shares it always.
            shares = port in there
            if tried[port] >= (20 if shares else 1):
                continue
            tried[port] += 1
            listener = listen_at(port)
            if not listener:
                continue
            count("ports shared" if shares else "ports taken")
            busy[port] = True
            stand_in(listener, f"127.0.0.1:{port}", pass_on_to(port))
            later.append((time.monotonic() + while_(), lambda l=listener, p=port: (end(l), busy.pop(p, None))))
        time.sleep(0.003)
    put_back(all_of_it=True)


def listening():
    with open("/proc/net/tcp") as opened:
        words = [line.split() for line in opened.readlines()[1:]]
    return {int(word[1].split(":")[1], 16) for word in words if word[3] == "0A"}


def reader():
    os.set_blocking(0, False)
    rest = b""

    def told(known):
        nonlocal rest
        try:
            more = os.read(0, 1 << 20)
            if not more:
                return False
            *lines, rest = (rest + more).split(b"\n")
            known.extend(line.decode(errors="surrogateescape") for line in lines)
        except BlockingIOError:
            pass
        return True

    return told


# Whatever else runs on this machine goes first: a race is won between two calls, not by more CPU time.
os.nice(5)
sys.setswitchinterval(0.0005)
{"files": race_for_files, "ports": race_for_ports}[role](reader())
print(json.dumps({"done": done, "passed": [[place, at, times] for (place, at), times in passed.items()]}))
