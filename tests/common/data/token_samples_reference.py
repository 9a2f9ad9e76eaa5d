#!/usr/bin/env python3
"""What common/data/token_samples.h describes, in plain Python: prints the samples of a small text.

    tests/common/data/token_samples_reference.py [--check FILE]

A line a sample: kind, epoch, features with values, labels, weight. token_samples_test.cc compares the
product with the file token_samples.golden beside this one; --check tells whether that is up to date.
"""
import math
import sys

MASK = (1 << 64) - 1
END = None
SEED = 7


def mix(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def sub_seed(seed, stream):
    return mix(mix(seed) ^ stream)


class Random:
    def __init__(self, seed):
        self.seed, self.counter = seed, 0

    def below(self, bound):
        value = mix((self.seed + 0x9e3779b97f4a7c15 * self.counter) & MASK)
        self.counter += 1
        return value * bound >> 64


def shuffled(positions, count, random):
    positions = list(positions)
    for i in range(count):
        j = i + random.below(len(positions) - i)
        positions[i], positions[j] = positions[j], positions[i]
    return positions[:count]


def lines_of(tokens, position):
    """The line that a position is in, as (first, last + 1)."""
    first = position
    while first > 0 and tokens[first - 1] is not END:
        first -= 1
    last = position
    while tokens[last] is not END:
        last += 1
    return first, last


def words(tokens, window, subsample, epoch):
    keep, width, order = (sub_seed(sub_seed(SEED, s), epoch) for s in (0x70ce, 0x70cf, 0x70d0))
    counts = {}
    for t in tokens:
        if t is not END:
            counts[t] = counts.get(t, 0) + 1
    total = sum(counts.values())
    share = {}
    for t, n in counts.items():
        ratio = subsample * total / n
        share[t] = min(1.0, math.sqrt(ratio) + ratio) if subsample > 0 else 1.0
    size = min(total, math.ceil(sum(share[t] * n for t, n in sorted(counts.items()))))
    stays = [t is not END and (share[t] == 1 or sub_seed(keep, p) >> 32 < int(share[t] * 2**32))
             for p, t in enumerate(tokens)]
    chosen = [p for p, t in enumerate(tokens) if t is not END and stays[p]]
    random = Random(order)
    if len(chosen) < size:
        others = [p for p, t in enumerate(tokens) if t is not END and not stays[p]]
        chosen += shuffled(others, size - len(chosen), random)
    for p in shuffled(chosen, size, random):
        first, last = lines_of(tokens, p)
        b = Random(sub_seed(width, p)).below(window) + 1
        before = [q for q in range(first, p) if stays[q]][-b:]
        after = [q for q in range(p + 1, last) if stays[q]][:b]
        labels = sorted({tokens[q] for q in before + after})
        yield {tokens[p]: 1.0}, labels, len(labels) / (window + 1)


def sessions(tokens, window, decay, epoch):
    random = Random(sub_seed(sub_seed(SEED, 0x70d0), epoch))
    chosen = [p for p, t in enumerate(tokens) if t is not END and p > 0 and tokens[p - 1] is not END]
    for p in shuffled(chosen, len(chosen), random):
        first, _ = lines_of(tokens, p)
        features = {}
        for n, q in enumerate(range(p - 1, max(first, p - window) - 1, -1)):
            features[tokens[q]] = features.get(tokens[q], 0.0) + decay ** n
        yield features, [tokens[p]], 1.0


def text():
    """300 tokens of 12, the first ones frequent, in lines of 1 to 17."""
    random = Random(99)
    tokens, left = [], 1 + random.below(17)
    for _ in range(300):
        tokens.append(min(random.below(12), random.below(12)))
        left -= 1
        if left == 0:
            tokens.append(END)
            left = 1 + random.below(17)
    return tokens + ([END] if tokens[-1] is not END else [])


def lines():
    tokens = text()
    for epoch in range(2):
        for kind, samples in (("words", words(tokens, 3, 0.02, epoch)),
                              ("sessions", sessions(tokens, 4, 0.5, epoch))):
            for features, labels, weight in samples:
                shown = ",".join(f"{f}:{features[f]:.6f}" for f in sorted(features))
                yield f"{kind} {epoch} {shown} {','.join(map(str, labels))} {weight:.6f}\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--check":
        sys.stdout.writelines(lines())
    elif open(sys.argv[2], encoding="utf-8").read() != "".join(lines()):
        sys.exit(f"{sys.argv[2]} is not what this program writes")


if __name__ == "__main__":
    main()
