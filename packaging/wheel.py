"""Packs an executable as a Python wheel: `wheel.py EXECUTABLE VERSION PLATFORM-TAGS FOLDER NOTICES`, in the repository.

The same file for the same input: no time of day, no owner."""

import base64
import hashlib
import pathlib
import sys
import tomllib
import zipfile

executable, version, tags, folder, notices = sys.argv[1:]
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
name, kind = f"lasthop-{version}", f"py3-none-{tags}"
info = f"{name}.dist-info"

metadata = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
metadata += [f"Summary: {project['description']}", f"License-Expression: {project['license']}"]
metadata += [f"License-File: {file}" for file in project["license-files"]] + ["License-File: THIRD-PARTY.txt"]
metadata += [f"Requires-Python: {project['requires-python']}", f"Keywords: {','.join(project['keywords'])}"]
metadata += [f"Project-URL: {label}, {url}" for label, url in project["urls"].items()]
metadata += ["Description-Content-Type: text/markdown", "", pathlib.Path(project["readme"]).read_text()]
every_tag = [f"Tag: py3-none-{tag}" for tag in tags.split(".")]
wheel = ["Wheel-Version: 1.0", "Generator: lasthop", "Root-Is-Purelib: false", *every_tag, ""]

licences = [pathlib.Path(file) for file in [*project["license-files"], notices]]
files = {f"{name}.data/scripts/lasthop": pathlib.Path(executable).read_bytes()}
files |= {f"{info}/licenses/{path.name}": path.read_bytes() for path in licences}
files |= {f"{info}/METADATA": "\n".join(metadata).encode(), f"{info}/WHEEL": "\n".join(wheel).encode()}


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


record = [f"{path},sha256={digest(content)},{len(content)}" for path, content in files.items()]
files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
with zipfile.ZipFile(pathlib.Path(folder) / f"{name}-{kind}.whl", "w") as archive:
    for path, content in files.items():
        entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
        archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
