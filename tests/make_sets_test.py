#!/usr/bin/python3
"""Checks tools/bench/make-sets on a small kernel and on a few titles.

    make_sets_test.py MAKE_SETS
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile

SOURCE = '''
/* a comment that calls nothing_here() */
static int
caller_{n}(struct thing *thing)
{{
	int size = compute_size(thing);

	if (size < 0)
		return size;
	pr_warn("text_in_quotes() is no call\\n");
	return rare_{group}(thing->width_{n}, shared_word, size);
}}
'''
TITLES = [("Graphen und Netze\nein Buch", ["Graph", "Netz"]), ("Netze", ["Netz"]),
          ("Graphen", ["Graph"]), ("Neues über Netze", ["Netz"])]


def lines_of(path):
    done = subprocess.run(["zstd", "-dcq", path], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def read_set(directory):
    """(labels, features) of each sample by split, after checks of the format."""
    splits = {}
    for name in ("train", "dev", "test"):
        header, *lines = lines_of(f"{directory}/{name}.txt.zst")
        samples, features, labels = map(int, header.split())
        assert samples == len(lines), header
        splits[name] = []
        for line in lines:
            first, *pairs = line.split(" ")
            pairs = [(int(a), float(b)) for a, b in (pair.split(":") for pair in pairs if pair)]
            assert pairs == sorted(pairs) and all(number < features for number, _ in pairs), line
            assert not pairs or abs(sum(v * v for _, v in pairs) - 1) < 1e-2, line
            splits[name].append((list(map(int, first.split(","))), pairs))
            assert max(splits[name][-1][0]) < labels, line
    return splits


def make(program, kind, source, target):
    subprocess.run([program, kind, "--from", source, "--to", target], check=True,
                   stderr=subprocess.DEVNULL)
    return read_set(target)


def check_calls(program, directory):
    """18 functions: compute_size and pr_warn have too many callers, each rare_ has three."""
    archive = f"{directory}/linux.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for path, numbers in (("fs/a.c", range(9)), ("net/b.c", range(9, 18)), ("tools/c.c", [0])):
            text = "".join(SOURCE.format(n=n, group="abcdef"[n % 6]) for n in numbers).encode()
            member = tarfile.TarInfo(f"linux/{path}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    splits = make(program, "calls", archive, f"{directory}/calls")
    assert sum(map(len, splits.values())) == 18, splits


def check_quarter(program, directory):
    part = make(program, "quarter", f"{directory}/calls", f"{directory}/quarter")
    assert 0 < len(part["train"]) < 18, part


def check_titles(program, directory):
    os.mkdir(f"{directory}/text")
    for name, records in (("train", TITLES), ("dev", TITLES[:1]), ("test", TITLES[1:])):
        text = "".join(json.dumps({"text": text, "labels": labels}) + "\n"
                       for text, labels in records)
        subprocess.run(["zstd", "-qo", f"{directory}/text/{name}.jsonl.zst"], input=text, text=True,
                       check=True)
    splits = make(program, "titles", f"{directory}/text", f"{directory}/titles")
    # Netz and Netze have the most samples; words of one title, and of the abstract, are no feature.
    assert splits["train"][1] == ([0], [(0, 1.0)]), splits


def main():
    program, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        check_calls(program, directory)
        check_quarter(program, directory)
        check_titles(program, directory)


if __name__ == "__main__":
    main()
