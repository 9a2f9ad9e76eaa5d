#!/usr/bin/env python3
"""Checks the folders' layering by the sources' includes.

    tests/layers_test.py [--root DIR] [--list]

Fails, with the include that breaks it, when
  - a folder includes one that LAYERS does not put below it,
  - folders include each other in a circle, or files of a core (a header and its source are one),
  - a folder has more than MOST_FILES source files,
  - more folders of the product name an optional mode than MODES allows: ask a general question of the
    mode's class instead,
  - the product locks by a class of the standard library, which Clang does not check,
  - a function asks for the type of a message's body more than MOST_ASKED times: visit the body.
"""
import argparse
import collections
import os
import re
import subprocess
import sys

MOST_FILES = 25
MOST_ASKED = 3

# The floors, lowest first. A folder may include folders of its own group that stand before it, and
# the groups that its group's line names.
LAYERS = [
    ("common", [], """
        common/base common/log common/stem common/config common/data common/data/measures common/data/numbers common/text/records common/text/vocabulary common/text common/vocabulary common/rank common/math
        common/math/int8 common/math/reproducible common/checkpoint common/balance
        common/security common/wire common/run common/idle common/model common/http common/net common/app"""),
    ("server", ["common"], """
        server/rows/tier server/rows server/model/lsh server/model/sampling server/model server/executor/batches server/executor/slots
        server/executor/state server/executor server/storage server/base server/gate server/migration
        server/core server"""),
    ("scheduler", ["common"], """
        scheduler/members scheduler/leases scheduler/ledger scheduler/base scheduler/balance
        scheduler/checkpoints scheduler/plan scheduler/pass scheduler/core scheduler/rank scheduler/stream
        scheduler/status
        scheduler"""),
    ("worker", ["common"], "worker"),
    ("tools", ["common", "server", "scheduler", "worker"], """
        tools/dslide/runs tools/dslide/cluster tools/dslide/keys tools/dslide/ledger tools/dslide/model
        tools/dslide/serve tools/dslide/data tools/dslide/export tools/dslide/vectors tools/dslide/report
        tools/dslide/tune tools/dslide/bench tools/dslide/estimate
        tools/dslide/checkpoint tools/dslide/doctor tools/dslide/commands tools/dslide tools/bench/swarm tools/bench
        tools/python/module"""),
]
# The roles' cores are pure: they get messages and the time, and never touch a socket.
PURE = ["server/base", "server/gate", "server/migration", "server/core", "server/executor",
        "server/executor/batches", "server/executor/slots", "server/executor/state",
        "server/model", "server/rows", "scheduler/core", "scheduler/base", "scheduler/members", "scheduler/leases", "scheduler/balance",
        "scheduler/checkpoints", "scheduler/plan", "scheduler/pass"]
IMPURE = ["common/http", "common/net", "common/app"]

# The names of each optional mode in code, and the most folders that may use them.
MODES = {
    "audits": (r"\b\w*[Aa]udit\w*", 9),
    "streams": (r"\b\w*(StreamFeeder|StreamSegment|StreamEnd|[Ss]egment\w*|open_vocabulary)\w*", 11),
    "dense layers": (r"\b(\w*Dense(Layers|Weights|Copies|Rows|Gradients\w*)\w*|dense_\w*"
                     r"|wants_dense\w*)\b", 8),
    "disk tier": (r"\b\w*[Tt]ier\w*", 11),
    "synchronous training": (r"\b\w*(Synchronous|CommitSteps|StepSums|StepBook|target_batch)\w*", 16),
    "prototypes": (r"\b\w*([Cc]entroid|[Pp]rototype)\w*", 4),
    "sample weights": (r"\b(weights_?\[|WeightOf|sample_weight\w*|SampleWeights)\b", 11),
    "hash tables": (r"\b\w*(HashTables|LiveTables|CandidateRanker|kLsh|Dwta|SimHash)\w*", 6),
    "tickets and receipts": (r"\b\w*([Tt]icket|[Rr]eceipt)\w*", 5),
}
PRODUCT = ("common/", "server/", "scheduler/", "worker/", "tools/dslide/")
LOCKS = re.compile(r"\bstd::(\w*mutex|lock_guard|(unique|scoped|shared)_lock|condition_variable\w*)\b")
CHECKED_LOCKS = "common/base/mutex.h"
COMMENT = re.compile(r"//[^\n]*")
MESSAGES = "common/wire/messages.h"
# From its first line to the brace that ends it: neither is indented.
FUNCTION = re.compile(r"^(?!(?:namespace|struct|class|using|enum)\b|.*\}$)[A-Za-z][^\n;]*\n(?:[^}\n][^\n]*\n|\n)*?\}", re.MULTILINE)
ASKS = re.compile(r"\b(?:get_if|holds_alternative)<(\w+)>")


def allowed_folders():
    below = {}
    groups = {}
    for group, lower_groups, folders in LAYERS:
        seen = [folder for lower in lower_groups for folder in groups[lower]]
        groups[group] = []
        for folder in folders.split():
            below[folder] = set(seen)
            seen.append(folder)
            groups[group].append(folder)
    for folder in PURE:
        below[folder] -= set(IMPURE)
    return below


def sources_of(root):
    """The text of each source file, by name."""
    files = subprocess.check_output(
        ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"],
        text=True).split()
    sources = {}
    for name in files:
        if os.path.exists(os.path.join(root, name)):
            with open(os.path.join(root, name), encoding="utf-8") as source:
                sources[name] = source.read()
    return sources


def includes_of(sources):
    """(folder, included folder) -> 'file includes file' of the first such include."""
    arrows = {}
    for name, text in sources.items():
        for included in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            folder, target = os.path.dirname(name), os.path.dirname(included)
            if target and target != folder:
                arrows.setdefault((folder, target), f"{name} includes {included}")
    return arrows


def file_arrows_of(sources):
    """(file, included file), both of the same core and without their endings."""
    arrows = set()
    for name, text in sources.items():
        stem = os.path.splitext(name)[0]
        for included in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            target = os.path.splitext(included)[0]
            core = os.path.dirname(stem)
            if target != stem and os.path.dirname(target) == core and core.endswith("/core"):
                arrows.add((stem, target))
    return sorted(arrows)


def circle_in(arrows):
    """Folders or files that include each other in a circle, or None."""
    edges = collections.defaultdict(list)
    for folder, target in arrows:
        edges[folder].append(target)
    done = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return None
        for target in edges[folder]:
            found = visit(target, path + [folder])
            if found:
                return found
        done.add(folder)
        return None

    for folder in list(edges):
        found = visit(folder, [])
        if found:
            return found
    return None


def folders_of_modes(sources):
    """mode -> the folders of the product whose code names it."""
    folders = collections.defaultdict(set)
    for name, text in sources.items():
        if name.startswith(PRODUCT):
            code = COMMENT.sub("", text)
            for mode, (pattern, _) in MODES.items():
                if re.search(pattern, code):
                    folders[mode].add(os.path.dirname(name))
    return folders


def asking_functions(sources):
    """(file, first line) of each function of the product with a chain of questions."""
    bodies = set(re.findall(r"^struct (\w+)", sources[MESSAGES], re.MULTILINE))
    for name, text in sources.items():
        if name.startswith(PRODUCT):
            for function in FUNCTION.findall(COMMENT.sub("", text)):
                if len([body for body in ASKS.findall(function) if body in bodies]) > MOST_ASKED:
                    yield name, function.splitlines()[0]


def complaints(root):
    sources = sources_of(root)
    arrows = includes_of(sources)
    below = allowed_folders()
    found = []
    for (folder, target), example in sorted(arrows.items()):
        if folder.startswith("tests"):
            continue
        if folder not in below:
            found.append(f"{folder} has no floor: name it in LAYERS of tests/layers_test.py")
        elif target not in below[folder]:
            found.append(f"{folder} is not above {target}: {example}")
    for circle in (circle_in(arrows), circle_in(file_arrows_of(sources))):
        if circle:
            found.append("a circle: " + " -> ".join(circle))
    for folder, count in sorted(collections.Counter(map(os.path.dirname, sources)).items()):
        if count > MOST_FILES:
            found.append(f"{folder} has {count} source files, at most {MOST_FILES}: make rooms")
    for mode, folders in folders_of_modes(sources).items():
        if len(folders) > MODES[mode][1]:
            found.append(f"{len(folders)} folders name {mode}, at most {MODES[mode][1]}: "
                         + ", ".join(sorted(folders)))
    for name, text in sources.items():
        lock = LOCKS.search(COMMENT.sub("", text))
        if lock and name != CHECKED_LOCKS and not name.startswith("tests/"):
            found.append(f"{name} names {lock[0]}: use the class in {CHECKED_LOCKS}")
    for name, line in asking_functions(sources):
        found.append(f"{name}: {line}: asks for the type of a body more than {MOST_ASKED} times; "
                     "visit it")
    return found, arrows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--list", action="store_true", help="print who includes whom")
    arguments = parser.parse_args()
    found, arrows = complaints(arguments.root)
    if arguments.list:
        for folder, target in sorted(arrows):
            print(f"{folder} -> {target}")
    for line in found:
        print(line)
    print(f"layers: {len(arrows)} arrows between folders, {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
