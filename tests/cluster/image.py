"""Makes an image of programs of this machine, in the format of `docker save`, without a builder and without a registry.

    image.py NAME FILE LASTHOP [ENVIRONMENT PROGRAM…]

Its entry point is the executable LASTHOP. A virtual environment of Python and other programs come with the libraries
that they link to, all of them at the paths that they have here.
"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile


def interpreter(environment):
    """The interpreter of an environment, and the folder of its standard library."""
    python = os.path.join(environment, "bin/python")
    asked = "import sysconfig; print(sysconfig.get_paths(vars={'base': __import__('sys').base_prefix})['stdlib'])"
    found = subprocess.run([python, "-c", asked], capture_output=True, check=True, text=True)
    return [os.path.realpath(python), found.stdout.strip()]


def files(path, without=()):
    if os.path.islink(path) or not os.path.isdir(path):
        return [path]
    found = []
    for folder, below, names in os.walk(path):
        below[:] = [name for name in below if name != "__pycache__" and name not in without]
        links = [name for name in below if os.path.islink(os.path.join(folder, name))]
        found += [os.path.join(folder, name) for name in names + links]
    return found


def is_program(path):
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def libraries(path):
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return [word for word in listed.split() if word.startswith("/")]


def with_targets(path, found):
    """A path, what its links lead to, and the links of the folders that it is in."""
    at = "/"
    for part in path.strip("/").split("/"):
        at = os.path.join(os.path.realpath(at), part)
        if os.path.islink(at):
            found.add(at)
            with_targets(os.path.join(os.path.dirname(at), os.readlink(at)), found)
    found.add(os.path.realpath(path) if os.path.exists(path) else path)


def content(environment, programs):
    found = set()
    if environment is None:
        return found
    python, library = interpreter(environment)
    others = {"site-packages", "dist-packages", "test", "tkinter", "idlelib", "ensurepip", "lib-tk"}
    for path in [*files(environment), python, *files(library, others), *programs]:
        with_targets(os.path.normpath(path), found)
    return found


ACCOUNTS = [
    ("passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("group", b"root:x:0:\nnogroup:x:65534:\n"),
]


def layer(lasthop, found):
    linked = {library for path in [lasthop, *found] if is_program(path) for library in libraries(path)}
    for library in linked:
        with_targets(library, found)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tmp = tarfile.TarInfo("tmp")
        tmp.type, tmp.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(tmp)
        for name, text in ACCOUNTS:
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        tar.add(lasthop, "lasthop")
        for path in sorted(found):
            if os.path.lexists(path) and not (os.path.isdir(path) and not os.path.islink(path)):
                tar.add(path, path[1:], recursive=False)
    return data.getvalue()


def main(name, output, lasthop, environment=None, *programs):
    packed = layer(lasthop, content(environment, programs))
    path = ":".join([f"{environment}/bin", "/usr/sbin", "/usr/bin"])
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/lasthop"], "Env": [f"PATH={path}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(packed).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {"manifest.json": json.dumps(manifest), "config.json": json.dumps(config), "layer.tar": packed}
    with tarfile.open(output, "w") as tar:
        for part, data in parts.items():
            data = data if isinstance(data, bytes) else data.encode()
            entry = tarfile.TarInfo(part)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


main(*sys.argv[1:])
