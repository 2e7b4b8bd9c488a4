#!/usr/bin/env python3
"""The dialects of the chat templates that llama.cpp tests itself with, against templates.txt.

usage: templates.py DETECT FOLDER

They lie in the source archive of llama-cpp-python, which pip downloads into FOLDER once (77 MB).
Without a network the test is skipped (exit code 77).
"""

import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                   "llama-cpp-python", "-d", str(folder), PACKAGE]
        if subprocess.run(command).returncode:
            print("skipped: the archive could not be downloaded")
            sys.exit(77)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        for member in archive:
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())


def main():
    detect, folder = sys.argv[1], Path(sys.argv[2])
    expected = (Path(__file__).parent / "templates.txt").read_text().splitlines()
    if not list(folder.glob("*.jinja")):
        fetch(folder)
    files = [str(folder / line.split()[0]) for line in expected]
    done = subprocess.run([detect, *files], stdout=subprocess.PIPE, text=True, check=True)
    found = done.stdout.splitlines()
    bad = [(e, f) for e, f in zip(expected, found) if e != f]
    for line in bad:
        print("expected %s\n   found %s" % line)
    print(f"{len(expected)} templates, {len(bad)} differences")
    sys.exit(1 if bad or len(found) != len(expected) else 0)


if __name__ == "__main__":
    main()
