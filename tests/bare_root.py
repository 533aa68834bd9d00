"""A Containerfile's steps without a container engine: run as root in an empty root of their own.

The root is a tmpfs in a mount namespace of its own, so that it is gone with the last process in it. Of this machine it
has, read-only, the system's programs and libraries and one Python, which stand for the base image. What steps add they
add there and nowhere else. What a base image brings beyond that, and what an engine does (networks, cgroups, seccomp),
is not shown by this.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
KNOWN = ("FROM", "ARG", "COPY", "RUN", "ENV", "USER", "VOLUME", "WORKDIR", "STOPSIGNAL", "ENTRYPOINT")


class Step(NamedTuple):
    word: str
    rest: str


class Image(NamedTuple):
    """What a Containerfile says of the container that is made of it."""

    steps: list[Step]  # COPY and RUN, in order
    environment: dict[str, str]
    user: str
    folder: str
    volumes: list[str]
    entry: list[str]
    base: str


def read_containerfile(text: str) -> Image:
    """All that it says; an instruction that is not understood here is an error."""
    arguments, environment, steps, volumes = dict[str, str](), dict[str, str](), list[Step](), list[str]()
    said = {"USER": "0:0", "WORKDIR": "/", "ENTRYPOINT": "[]", "FROM": ""}
    for line in re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines():
        if not line.strip():
            continue
        word, rest = line.split(None, 1)
        assert word in KNOWN, f"{word} is not understood"
        if word == "ARG":
            name, _, value = rest.partition("=")
            arguments[name] = value
        elif word == "ENV":
            environment |= dict(one.split("=", 1) for one in shlex.split(rest))
        elif word in ("COPY", "RUN"):
            steps.append(Step(word, rest))
        elif word == "VOLUME":
            volumes.append(rest.strip())
        elif word in said:
            said[word] = re.sub(r"\$\{(\w+)\}", lambda named: arguments[named[1]], rest.strip())
    entry = json.loads(said["ENTRYPOINT"])
    return Image(steps, environment, said["USER"], said["WORKDIR"], volumes, entry, said["FROM"])


def missing() -> str:
    """Why this cannot be done here; "" where it can."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "needs Linux, and root"
    if Path(sys.base_prefix) != Path("/usr") and not Path(sys.base_prefix, "bin", "python").exists():
        return f"needs {sys.base_prefix}/bin/python"
    for program in ("unshare", "mount", "chroot", "useradd"):
        if shutil.which(program) is None and not Path("/usr/sbin", program).exists():
            return f"needs the program {program}"
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"may not mount: {tried.stderr.strip()}"


def bound(what: str, place: str) -> list[str]:
    """A folder of this machine, read-only."""
    return [f"mount --bind {what} {place}", f"mount -o remount,bind,ro {place}"]


def script_for(image: Image, context: Path, wheels: Path, root: Path, volume: Path) -> str:
    """A shell script that makes the root, runs the steps in it and starts the container twice; it ends as the second.

    COPY takes from `context`, pip takes from `wheels` and from nowhere else, and `volume` is bound as an engine would.
    """
    python, at, user = Path(sys.base_prefix), shlex.quote(str(root)), image.user
    build = "PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1"
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    lines = ["set -eu", "umask 022", f"cd {shlex.quote(str(context))}", f"mount -t tmpfs -o mode=755 none {at}"]
    for name in SYSTEM:
        place = Path("/", name)
        if place.is_symlink():
            lines.append(f"ln -s {os.readlink(place)} {at}/{name}")
        elif place.is_dir():
            lines += [
                f"mkdir {at}/{name}",
                f"mount --bind {place} {at}/{name}",
                f"mount -o remount,bind,ro {at}/{name}",
            ]
    lines += [
        f"mkdir -p {at}/etc {at}/tmp {at}/proc {at}/dev {at}/opt {at}/var",
        f"chmod 1777 {at}/tmp",
        f"mount -t proc proc {at}/proc",
        f"mount --rbind /dev {at}/dev",
        *([] if python == Path("/usr") else bound(str(python), f"{at}/usr/local")),  # where the base image has it
        f"cp -r /etc/ld.so.conf /etc/ld.so.conf.d {at}/etc/ && chroot {at} /sbin/ldconfig",
        f"mkdir {at}/wheels",
        f"mount --bind {shlex.quote(str(wheels))} {at}/wheels",
        f"cp /etc/login.defs /etc/nsswitch.conf {at}/etc/ 2>/dev/null || true",
        f"echo root:x:0:0:root:/root:/bin/sh > {at}/etc/passwd; echo root:x:0: > {at}/etc/group",
        f"touch {at}/etc/shadow {at}/etc/gshadow; echo 127.0.0.1 localhost > {at}/etc/hosts",
    ]
    for step in image.steps:
        if step.word == "COPY":
            *sources, target = shlex.split(step.rest)
            lines += [f"mkdir -p {at}{target}", f"cp {' '.join(sources)} {at}{target}"]
        else:
            lines.append(f"env -i {path} {build} chroot {at} /bin/sh -c {shlex.quote(step.rest)}")
    lines += [f"umount {at}/wheels", f"rmdir {at}/wheels"]
    for place in image.volumes:
        lines += [f"mkdir -p {at}{place}", f"chown {user} {at}{place}"]
        lines += [f"mount --bind {shlex.quote(str(volume))} {at}{place}"]
    known = " ".join(f"{name}={shlex.quote(value)}" for name, value in image.environment.items())
    start = f"cd {image.folder} && exec {shlex.join(image.entry)}"
    lines += [  # as with --read-only --tmpfs /tmp
        f"mount -t tmpfs -o mode=1777 none {at}/tmp",
        f"mount -o remount,ro none {at}",
        "echo THE STEPS ARE DONE",
        "set +e",
        "for start in 1 2; do",
        f"  env -i {path} {known} chroot --userspec={user} {at} /bin/sh -c {shlex.quote(start)}",
        "  code=$?; echo START $start ENDED WITH $code",
        "done",
        "exit $code",
    ]
    return "\n".join(lines) + "\n"
