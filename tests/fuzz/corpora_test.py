#!/usr/bin/env python3
"""Checks tests/fuzz/corpora on small archives, and that the replay refuses a target without a corpus.

    corpora_test.py TESTS_FUZZ_REPLAY
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile

CORPORA = pathlib.Path(__file__).resolve().parent / "corpora"


def digest(data):
    return hashlib.sha1(data).hexdigest()


class World:
    """A repository with the targets "first" and "second"."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.corpus = self.root / "tests/fuzz/corpus"
        self.out = self.root / "out"
        (self.root / "tests/fuzz/formats").mkdir(parents=True)
        self.corpus.mkdir()
        for target in "first", "second":
            (self.root / f"tests/fuzz/formats/{target}_fuzz.cc").touch()
            self.add(target, b"a", b"b" * 1000)
        self.archive = self.corpus / "first.tar.zst"

    def run(self, *arguments):
        return subprocess.run([CORPORA, "--root", self.root, *arguments], capture_output=True, text=True,
                              check=False)

    def succeed(self, *arguments):
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fail(self, words, *arguments):
        """The command fails with one line that has all the words."""
        done = self.run(*arguments)
        assert done.returncode == 1, (words, done)
        assert done.stderr.count("\n") == 1 and all(word in done.stderr for word in words), done.stderr

    def file(self, data):
        path = self.root / f"input-{digest(data)}"
        path.write_bytes(data)
        return path

    def add(self, target, *contents):
        return self.succeed("add", target, *map(self.file, contents))

    def unpacked(self, target="first"):
        self.succeed("unpack", self.out)
        return {path.name: path.read_bytes() for path in (self.out / target).iterdir()}


def packs_each_content_once(world):
    expected = {digest(data): data for data in (b"a", b"b" * 1000)}
    assert world.unpacked() == expected
    before = world.archive.read_bytes()
    assert "has these inputs already" in world.add("first", b"a")
    assert world.archive.read_bytes() == before
    world.add("first", b"c", b"a", b"c")
    assert world.unpacked() == expected | {digest(b"c"): b"c"}


def same_inputs_make_the_same_archive(world):
    before = world.archive.read_bytes()
    folder = world.root / "merged"
    folder.mkdir()
    for data in b"b" * 1000, b"a":
        (folder / digest(data)).write_bytes(data)
    (folder / "seed-0").write_bytes(b"a seed is not packed")
    world.archive.unlink()
    world.succeed("replace", "first", folder)
    assert world.archive.read_bytes() == before
    (folder / digest(b"a")).unlink()
    world.succeed("replace", "first", folder)
    assert world.unpacked() == {digest(b"b" * 1000): b"b" * 1000}


def plain_files_stay_beside_the_archive(world):
    before = world.archive.read_bytes()
    (world.corpus / "first").mkdir()
    (world.corpus / "first/name-too-long").write_bytes(b"plain")
    assert "has these inputs already" in world.add("first", b"plain")
    assert world.archive.read_bytes() == before
    assert world.unpacked()["name-too-long"] == b"plain"
    (world.corpus / "first" / digest(b"c")).write_bytes(b"c")
    world.fail([digest(b"c"), "outside its archive"], "unpack", world.out)


def unpacking_deletes_other_files(world):
    (world.out / "first").mkdir(parents=True)
    (world.out / "first/old").touch()
    assert "old" not in world.unpacked()


def damaged_archives_are_errors(world):
    whole = world.archive.read_bytes()
    damage = {
        "a changed byte": whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:],
        "a missing end": whole[:-5],
        "no bytes": b"",
        "no archive": b"text",
        "an archive without inputs": subprocess.check_output(["zstd", "-qc"], input=bytes(10240)),
    }
    for name, data in damage.items():
        world.archive.write_bytes(data)
        world.fail(["first.tar.zst is damaged", "git checkout"], "unpack", world.out)
        world.fail(["first.tar.zst is damaged"], "add", "first", world.file(name.encode()))
        assert world.archive.read_bytes() == data, name
    world.archive.unlink()
    world.fail(["first.tar.zst is missing", "git checkout"], "unpack", world.out)
    world.archive.write_bytes(whole)
    world.unpacked()


def archives_belong_to_targets(world):
    world.fail(["third is not a target", "first second"], "add", "third", world.file(b"a"))
    (world.root / "tests/fuzz/formats/first_fuzz.cc").unlink()
    world.fail(["first.tar.zst belongs to no target"], "unpack", world.out)


def the_replay_needs_a_corpus(replay):
    with tempfile.TemporaryDirectory() as folder:
        for arguments in ["address", folder], ["--corpus", folder]:
            done = subprocess.run([replay, *arguments], capture_output=True, text=True, check=False)
            assert done.returncode == 1, done
            assert done.stderr.count("\n") == 1 and f"{folder}/address has no files" in done.stderr, done


def main():
    for case in (packs_each_content_once, same_inputs_make_the_same_archive, plain_files_stay_beside_the_archive,
                 unpacking_deletes_other_files, damaged_archives_are_errors, archives_belong_to_targets):
        with tempfile.TemporaryDirectory() as root:
            case(World(root))
    the_replay_needs_a_corpus(sys.argv[1])


if __name__ == "__main__":
    main()
