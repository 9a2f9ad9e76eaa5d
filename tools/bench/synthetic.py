"""Generated training data: the sizes of a large data set, Zipf-distributed features and labels."""

import itertools
import random
from dataclasses import dataclass, fields

from netlab import BenchError

LABELS_PER_SAMPLE = 5  # on average
SPREAD = 0x9E3779B1  # a prime: spreads the popular ids over the id range
SEED = 1


@dataclass(frozen=True)
class Sizes:
    labels: int = 670091
    features: int = 135909
    samples: int = 20000
    per_sample: int = 75

    @classmethod
    def parse(cls, text):
        """"labels=670091,features=135909,..." in any order, each with a default."""
        known = [field.name for field in fields(cls)]
        values = {}
        for pair in filter(None, text.split(",")):
            key, _, value = pair.partition("=")
            if key not in known or not value.isdigit() or int(value) == 0:
                raise BenchError(f"--synthetic {pair}: expected KEY=NUMBER with a key of "
                                 f"{', '.join(known)}", 2)
            values[key] = int(value)
        sizes = cls(**values)
        if sizes.per_sample * 2 > sizes.features or LABELS_PER_SAMPLE * 4 > sizes.labels:
            raise BenchError("--synthetic: needs features >= 2 * per_sample and labels >= "
                             f"{LABELS_PER_SAMPLE * 4}", 2)
        return sizes


class Zipf:
    """The id at rank r with probability proportional to 1 / (r + 1)."""

    def __init__(self, ids, source):
        self._ids = ids
        self._cumulative = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(ids))))
        self._source = source

    def distinct(self, count):
        """`count` different ids, ascending."""
        drawn = set()
        while len(drawn) < count:
            drawn.update(self._source.choices(self._ids, cum_weights=self._cumulative,
                                              k=count - len(drawn)))
        return sorted(drawn)


def spread_ids(n):
    """[0, n), in an order that spreads the first ones over all slots."""
    return [rank * SPREAD % n for rank in range(n)]


def crowded_ids(n, slots=256, used=64):
    """The ids of [0, n) in the first `used` of `slots` slots, the first ones spread."""
    ids = [i for i in range(n) if i % slots < used]
    return [ids[rank] for rank in spread_ids(len(ids))]


def write_samples(path, sizes, ids=spread_ids, labels_per_sample=LABELS_PER_SAMPLE):
    """`ids`: the ids of [0, n) that occur, the most frequent first."""
    source = random.Random(SEED)
    features, labels = Zipf(ids(sizes.features), source), Zipf(ids(sizes.labels), source)
    with open(path, "w") as file:
        file.write(f"{sizes.samples} {sizes.features} {sizes.labels}\n")
        for _ in range(sizes.samples):
            count = source.randint(1, 2 * labels_per_sample - 1)
            pairs = " ".join(f"{feature}:{source.uniform(0.01, 1):.4f}"
                             for feature in features.distinct(sizes.per_sample))
            file.write(",".join(map(str, labels.distinct(count))) + " " + pairs + "\n")
