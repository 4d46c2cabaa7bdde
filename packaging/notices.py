"""Prints the licences of what is compiled into the executable: `cargo metadata | notices.py`."""

import json
import pathlib
import sys

metadata = json.load(sys.stdin)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}


def is_linked(package):
    return any("lib" in target["kind"] or "bin" in target["kind"] for target in package["targets"])


def linked(root):
    """What a package needs when it runs: neither tests nor what only builds it."""
    seen, waiting = set(), [root]
    while waiting:
        name = waiting.pop()
        if name in seen or not is_linked(packages[name]):
            continue
        seen.add(name)
        kinds = ((each["pkg"], {kind["kind"] for kind in each["dep_kinds"]}) for each in nodes[name]["deps"])
        waiting += [needed for needed, of in kinds if None in of]
    return [packages[name] for name in seen if packages[name]["source"]]


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    named = (path for path in folder.iterdir() if path.is_file())
    kept = [path for path in named if path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE"))]
    return {path.read_text(errors="replace").strip() for path in kept}


roots = [each["id"] for each in metadata["packages"] if each["name"] == "lasthop"]
users = {}
print("lasthop contains these packages, under the licences that they name:\n")
for package in sorted(linked(roots[0]), key=lambda each: (each["name"], each["version"])):
    name = f"{package['name']} {package['version']}"
    print(f"{name}: {package['license'] or 'see below'}; {package['repository'] or 'no repository named'}")
    for text in texts(package):
        users.setdefault(text, []).append(name)
print("\nIt contains Rust's standard library (MIT OR Apache-2.0; https://github.com/rust-lang/rust). The static")
print("executable also contains the GNU C library (LGPL-2.1-or-later; Debian's source package glibc); to link it with")
print("another one, build lasthop from its source with script/release. The page of a report (--format html)")
print("contains Observable Plot and D3 and says so at its head.")
for text, names in sorted(users.items(), key=lambda each: each[1]):
    print(f"\n{'-' * 80}\n{', '.join(names)}\n\n{text}")
