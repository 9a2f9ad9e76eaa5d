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
import zlib

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
    files = {}
    for name in sorted(os.listdir(target)):
        with open(f"{target}/{name}", "rb") as file:
            files[name] = file.read()
    return files


def check_calls(program, directory):
    """18 functions: compute_size and pr_warn have too many callers, each rare_ has three."""
    archive = f"{directory}/linux.tar.xz"
    with tarfile.open(archive, "w:xz") as tar:
        for path, numbers in (("fs/a.c", range(9)), ("net/b.c", range(9, 18)), ("tools/c.c", [0])):
            text = "".join(SOURCE.format(n=n, group="abcdef"[n % 6]) for n in numbers).encode()
            member = tarfile.TarInfo(f"linux/{path}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    files = make(program, "calls", archive, f"{directory}/calls")
    assert files == make(program, "calls", archive, f"{directory}/again")
    splits = read_set(f"{directory}/calls")
    assert sum(map(len, splits.values())) == 18, splits
    trained = [labels for labels, _ in splits["train"]]
    assert all(labels in trained for held in ("dev", "test") for labels, _ in splits[held]), splits
    names = [line.split("\t")[1] for line in lines_of(f"{directory}/calls/labels.tsv.zst")]
    assert sorted(names) == [f"rare_{group}" for group in "abcdef"], names


def check_quarter(program, directory):
    make(program, "quarter", f"{directory}/calls", f"{directory}/quarter")
    whole, part = (read_set(f"{directory}/{name}") for name in ("calls", "quarter"))
    for name, samples in part.items():
        kept = [sample for sample in whole[name] if zlib.crc32(str(sample[0][0]).encode()) % 4 == 0]
        assert [features for _, features in samples] == [features for _, features in kept], name
    assert 0 < len(part["train"]) < len(whole["train"]), part


def check_titles(program, directory):
    os.mkdir(f"{directory}/text")
    for name, records in (("train", TITLES), ("dev", TITLES[:1]), ("test", TITLES[1:])):
        text = "".join(json.dumps({"text": text, "labels": labels}) + "\n"
                       for text, labels in records)
        subprocess.run(["zstd", "-qo", f"{directory}/text/{name}.jsonl.zst"], input=text, text=True,
                       check=True)
    make(program, "titles", f"{directory}/text", f"{directory}/titles")
    splits = read_set(f"{directory}/titles")
    # Netz and Netze have the most samples; words of one title, and of the abstract, are no feature.
    assert splits["train"][1] == ([0], [(0, 1.0)]), splits
    assert [labels for labels, _ in splits["train"]] == [[0, 1], [0], [1], [0]], splits
    assert [number for number, _ in splits["dev"][0][1]] == [0, 1], splits


def main():
    program, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        check_calls(program, directory)
        check_quarter(program, directory)
        check_titles(program, directory)


if __name__ == "__main__":
    main()
