"""A bare Debian system in a directory, in which commands run by themselves: namespaces of their own
for processes, mounts and host name. Needs root, mmdebstrap and apt's sources of this machine."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*command, **options):
    """Runs a command, and fails with its output."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {done.returncode}\n"
                           f"{done.stdout[-4000:]}")
    return done.stdout


def check(what, holds):
    if not holds:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: {what}")
    print(f"ok: {what}", flush=True)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class DebianRoot:
    """A context manager: makes the system, and removes it."""

    def __init__(self, packages=()):
        self._packages = list(packages)

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="dslide-debian-")
        try:
            run("mmdebstrap", "--quiet", "--mode=root", "--variant=apt",
                *(["--include=" + ",".join(self._packages)] if self._packages else []),
                "--setup-hook=mkdir -p \"$1/var/cache/apt/archives\"", "bookworm", self.path,
                *self._sources())
            shutil.copy("/etc/resolv.conf", f"{self.path}/etc/resolv.conf")
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _sources():
        """Those that this machine takes packages from."""
        files = [f"/etc/apt/sources.list.d/{name}"
                 for name in sorted(os.listdir("/etc/apt/sources.list.d"))
                 if name.endswith((".list", ".sources"))]
        if os.path.exists("/etc/apt/sources.list"):
            files.append("/etc/apt/sources.list")
        return [path for path in files if "bookworm" in open(path, encoding="utf-8").read()]

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def command(self, *words, directory="/root"):
        """The command line that runs `words` in there; it ends with its first process."""
        return ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child",
                "sh", "-c",
                'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && '
                'exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 '
                f'DEBIAN_FRONTEND=noninteractive sh -c \'cd "$0" && exec "$@"\' {directory} "$@"',
                self.path, *map(str, words)]

    def run(self, *words, **options):
        return run(*self.command(*words), **options)
