"""A Slurm cluster on this machine: a controller and several node daemons on loopback, with munge and
files of their own. Needs root, slurm-wlm and munge."""

import contextlib
import glob
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

CONFIGURATION = """
ClusterName=dslide
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={root}/munge/munge.sock
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmdPidFile={root}/slurmd.%n.pid
SlurmdLogFile={root}/log/slurmd.%n.log
SlurmctldPidFile={root}/slurmctld.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=10
KillWait=10
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
{nodes}
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP PreemptMode=OFF
PartitionName=preemptible Nodes=n[3-{count}] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=graceful Nodes=n[3-{count}] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=1
PartitionName=urgent Nodes=n[3-{count}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """A context manager: starts the daemons, and ends them with all their jobs."""

    def __init__(self, nodes, path):
        self._count = nodes
        self._path = path  # directories of executables that jobs find

    def __enter__(self):
        self.root = tempfile.mkdtemp(prefix="dslide-slurm-")
        self._daemons = {}
        self.environment = dict(os.environ, SLURM_CONF=f"{self.root}/slurm.conf",
                                PATH=f"{self._path}:{os.environ['PATH']}")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        for name in ("munge", "state", "log", "spool"):
            os.mkdir(f"{self.root}/{name}", 0o755)
        ports = free_ports(1 + self._count)
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(
            f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i]} CPUs=2 "
            "RealMemory=1000 State=UNKNOWN" for i in range(1, self._count + 1))
        with open(f"{self.root}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(root=self.root, host=host, nodes=nodes,
                                            controller_port=ports[0], count=self._count))
        key = f"{self.root}/munge/munge.key"
        with open(key, "wb") as file:
            file.write(secrets.token_bytes(128))
        os.chmod(key, 0o400)
        os.chmod(self.root, 0o755)
        self._daemon("munged", "munged", "--foreground", "--force", f"--key-file={key}",
                     f"--socket={self.root}/munge/munge.sock",
                     f"--pid-file={self.root}/munge/munged.pid",
                     f"--log-file={self.root}/munge/munged.log",
                     f"--seed-file={self.root}/munge/munged.seed")
        self.await_(lambda: os.path.exists(f"{self.root}/munge/munge.sock"), "munged")
        self._daemon("slurmctld", "slurmctld", "-D", "-c")
        for i in range(1, self._count + 1):
            os.mkdir(f"{self.root}/spool/n{i}")
            self.start_node(f"n{i}")
        self.await_(lambda: self.command("sinfo", "-h", "-o", "%T %D").split() ==
                    ["idle", str(self._count)], "the nodes")

    def _daemon(self, name, *command):
        log = open(f"{self.root}/{name}.out", "ab")
        self._daemons[name] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                               stdin=subprocess.DEVNULL, stdout=log,
                                               stderr=log, env=self.environment,
                                               start_new_session=True)
        log.close()

    def start_node(self, name):
        self._daemon(name, "slurmd", "-D", "-N", name, "-c")

    def kill_node(self, name):
        """The node is gone at once, with all that runs there."""
        self._daemons.pop(name).kill()
        self._kill_tasks_of(name)

    def _kill_tasks_of(self, node):
        for pid in self._processes_of(node):
            with contextlib.suppress(ProcessLookupError):  # it has died with its parent
                os.kill(pid, signal.SIGKILL)

    def _processes_of(self, node):
        """slurmstepd's of a node, and what runs below them."""
        parents, found = {}, []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
                with open(f"/proc/{entry}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
            except (OSError, ValueError):
                continue
            if (f"SLURMD_NODENAME={node}".encode() in environment and
                    f"SLURM_CONF={self.root}/slurm.conf".encode() in environment):
                found.append(int(entry))
        return found

    def await_(self, holds, what, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"slurm: waited in vain for {what}\n{self.logs()}")
            time.sleep(0.1)

    def command(self, *words, **environment):
        done = subprocess.run(words, env=dict(self.environment, **environment), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}")
        return done.stdout

    def submit(self, *words, **environment):
        return re.search(r"\d+", self.command("sbatch", *words, **environment))[0]

    def state(self, job):
        """Of a job, or of each task of an array, as Slurm names it."""
        return self.command("squeue", "-h", "-a", "-t", "all", "-r", "-o", "%T", "-j", job).split()

    def start_soon(self, job):
        """Slurm lets what it has queued again wait for two minutes: these tasks wait for two seconds.
        A node refuses a task whose credential is of the second in which the one before was revoked."""
        for line in self.command("squeue", "-h", "-r", "-t", "pending", "-O",
                                 "JobArrayID:40,State:20,EligibleTime:30", "-j",
                                 job).splitlines():
            task, state, eligible = line.split()
            if state == "PENDING" and eligible > time.strftime(
                    "%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 10)):
                subprocess.run(["scontrol", "update", f"jobid={task}", "starttime=now+2"],
                               env=self.environment, capture_output=True)

    def await_restarted(self, jobs, tasks):
        """A task that Slurm has queued again is "completing" at first, and can be started after it."""
        def running():
            self.start_soon(",".join(jobs))
            return [state for job in jobs for state in self.state(job)] == ["RUNNING"] * tasks
        self.await_(running, f"{tasks} tasks of {jobs} to run again")

    def restarts(self, job):
        """How often its tasks were queued again, in all."""
        return sum(int(count) for count in re.findall(
            r"Restarts=(\d+)", self.command("scontrol", "show", "job", job)))

    def logs(self):
        """The last lines of the daemons and of the jobs."""
        text = ""
        for path in sorted(glob.glob(f"{self.root}/*.out") + glob.glob(f"{self.root}/log/*.log")):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += f"--- {os.path.basename(path)}\n{file.read()[-1500:]}"
        return text

    def __exit__(self, *_):
        for daemon in reversed(list(self._daemons.values())):
            daemon.kill()
            daemon.wait()
        for i in range(1, self._count + 1):
            self._kill_tasks_of(f"n{i}")
        shutil.rmtree(self.root, ignore_errors=True)
