"""Options, messages, signals, errors and the directory of a run, for the programs of this folder."""

import argparse
import os
import shutil
import signal
import sys
import tempfile

from netlab import BenchError

BENCH = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(BENCH))
SUBSET = os.path.join(ROOT, "tools/data/gnd-subset")
NAME = os.path.basename(sys.argv[0])


class Stopped(BaseException):
    """SIGINT or SIGTERM arrived."""


def new_parser(description):
    """A parser with the options of every program that trains a cluster."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        dest="sets", help="a value of D-SLIDE's configuration")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), metavar="DIR")
    return parser


def check_at_least(options, **least):
    for name, limit in least.items():
        value = getattr(options, name)
        if value is not None and value < limit:
            raise BenchError(f"--{name.replace('_', '-')} {value}: must be at least {limit}", 2)


def say(line):
    print(f"{NAME}: {line}", file=sys.stderr, flush=True)


def run_script(measure, parent=None, keep=False):
    """Calls measure(directory) and returns the exit code. The directory is made in `parent`, and
    removed afterwards unless `keep`. SIGINT and SIGTERM raise Stopped."""
    def stop(number, _):
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    directory = None
    try:
        if parent:
            os.makedirs(parent, exist_ok=True)
        directory = tempfile.mkdtemp(prefix=f"dslide-bench-{NAME}-", dir=parent)
        measure(directory)
        return 0
    except BenchError as error:
        say(error)
        return error.exit_code
    except Stopped as stopped:
        say("stopped")
        return 128 + stopped.args[0]
    finally:
        if directory is not None and not keep:
            shutil.rmtree(directory, ignore_errors=True)
