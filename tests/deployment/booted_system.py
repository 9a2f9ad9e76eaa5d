"""A Debian system in a directory whose first process is systemd: namespaces of its own for processes,
mounts, host name, network (loopback only) and control groups. Needs root, and version 2 of control groups
in the kernel."""

import os
import signal
import subprocess
import time

from debian_root import DebianRoot, run

DEADLINE_S = 120

# As containers have it: a /dev of seven devices, and systemd told that it is in one.
BOOT = r"""
set -e
root=$0
mount --make-rprivate /
mount -t cgroup2 cgroup2 "$root/mnt"
mkdir "$root/mnt/$1"
echo $$ > "$root/mnt/$1/cgroup.procs"
exec unshare --cgroup --pid --fork --kill-child sh -ec '
root=$0
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ip link set lo up
cd "$root"
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
exec env -i container=dslide PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=multi-user.target --show-status=false
' "$root"
"""


class BootedSystem(DebianRoot):
    """A context manager: makes the system. boot() starts it."""

    def __init__(self, packages=()):
        super().__init__(["systemd", *packages])
        self._boot = None
        self._init = None
        self._group = f"dslide-boot-{os.getpid()}"

    def boot(self):
        with open(f"{self.path}/etc/machine-id", "w", encoding="utf-8"):
            pass  # systemd makes one
        self._log = f"{self.path}/../{os.path.basename(self.path)}.log"
        with open(self._log, "wb") as log:
            self._boot = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--uts", "--ipc", "--net",
                 "sh", "-c", BOOT, self.path, self._group],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.wait(self._is_running, "systemd to be up")

    def _is_running(self):
        if self._boot.poll() is not None:
            with open(self._log, encoding="utf-8", errors="replace") as file:
                raise RuntimeError(f"systemd did not start: {file.read()[-2000:]}")
        if self._init is None:
            # unshare, and the first process of the new namespace below it
            with open(f"/proc/{self._boot.pid}/task/{self._boot.pid}/children", encoding="utf-8") as file:
                children = file.read().split()
            if not children:
                return False
            with open(f"/proc/{children[0]}/comm", encoding="utf-8") as file:
                if file.read().strip() != "systemd":
                    return False
            self._init = children[0]
        state = self.try_in("systemctl", "is-system-running").stdout.strip()
        return state in ("running", "degraded")

    def _within(self, words):
        return ["nsenter", "--target", str(self._init), "--mount", "--uts", "--ipc", "--net", "--pid",
                "--cgroup", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
                "LC_ALL=C.UTF-8", *map(str, words)]

    def try_in(self, *words):
        """Runs a command there, however it ends."""
        return subprocess.run(self._within(words), capture_output=True, text=True)

    def run_in(self, *words):
        """Runs a command in the booted system, and fails with its output."""
        return run(*self._within(words))

    def wait(self, holds, what):
        end = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"waited in vain for {what}")
            time.sleep(0.1)

    def __exit__(self, *exception):
        if self._boot is not None:
            # With its first process goes all of the namespace, and unshare when it is gone.
            os.kill(self._boot.pid if self._init is None else int(self._init), signal.SIGKILL)
            self._boot.wait()
            os.unlink(self._log)
            # A group can be removed when its processes are gone and groups below it as well.
            subprocess.run(["unshare", "--mount", "sh", "-c",
                            'mount -t cgroup2 cgroup2 /mnt && find "/mnt/$0" -depth -type d '
                            "-exec rmdir {} ';'", self._group], capture_output=True)
        super().__exit__(*exception)
