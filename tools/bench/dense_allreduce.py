"""The dense way to train D-SLIDE's network: each worker holds all of it, gradients are all-reduced.

Run by tools/bench/network once a worker host. Sparse input -> sum of D x H rows + bias -> relu ->
H x N -> softmax cross-entropy, the target mass spread evenly over a sample's labels. PyTorch
DistributedDataParallel over gloo, plain SGD, dense gradients. Rank 0 prints a JSON line.
"""

import argparse
import contextlib
import itertools
import json
import os
import time

import torch
from torch import distributed, nn

MICRO_BATCH = 64  # samples whose N logits are in memory at once; gradients add up locally
DEVICE = "eth0"


class DenseNetwork(nn.Module):
    def __init__(self, features, hidden, labels):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.embedding = nn.utils.skip_init(nn.EmbeddingBag, features, hidden, mode="sum")
        self.output = nn.utils.skip_init(nn.Linear, hidden, labels)

    def draw_parameters(self):
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.05, 0.05)

    def forward(self, ids, offsets, values):
        return self.output(torch.relu(self.embedding(ids, offsets, values) + self.bias))


def parse_sample(line):
    labels, *pairs = line.split()
    split = [pair.split(":") for pair in pairs]
    return [int(label) for label in labels.split(",")], [int(f) for f, _ in split], \
        [float(v) for _, v in split]


def read_samples(path, rank, world, per_rank):
    """The data's sizes and this rank's share: every world-th sample."""
    with open(path) as file:
        _, features, labels = map(int, file.readline().split())
        lines = itertools.islice(file, rank, world * per_rank, world)
        return features, labels, [parse_sample(line) for line in lines]


def loss_of(model, samples, batch):
    """Cross-entropy of these samples, divided by the size of the batch that they are part of."""
    labels, ids, values = zip(*samples)
    offsets = torch.tensor([0, *itertools.accumulate(map(len, ids))][:-1])
    logits = model(torch.tensor(sum(ids, [])), offsets, torch.tensor(sum(values, [])))
    rows = torch.repeat_interleave(torch.arange(len(labels)), torch.tensor(list(map(len, labels))))
    mass = torch.tensor([1 / len(own) for own in labels])
    targets = logits[rows, torch.tensor(sum(labels, []))] * mass[rows]
    return (torch.logsumexp(logits, 1).sum() - targets.sum()) / batch


def train_step(model, optimizer, samples):
    optimizer.zero_grad(set_to_none=False)  # they are views into the all-reduced buffers
    for start in range(0, len(samples), MICRO_BATCH):
        last = start + MICRO_BATCH >= len(samples)
        with contextlib.nullcontext() if last else model.no_sync():
            loss_of(model, samples[start:start + MICRO_BATCH], len(samples)).backward()
    optimizer.step()


def bytes_sent():
    with open("/proc/self/net/dev") as devices:
        figures = dict(line.strip().split(":", 1) for line in devices if ":" in line)
    return int(figures[DEVICE].split()[8])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--master", required=True, help="ADDRESS:PORT of rank 0")
    parser.add_argument("--data", required=True)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="measured, after a warm-up step")
    options = parser.parse_args()

    os.environ["GLOO_SOCKET_IFNAME"] = DEVICE
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://{options.master}",
                                   rank=options.rank, world_size=options.world)
    count = (options.steps + 1) * options.batch
    features, labels, samples = read_samples(options.data, options.rank, options.world, count)
    network = DenseNetwork(features, options.hidden, labels)
    if options.rank == 0:  # the other ranks get its parameters
        network.draw_parameters()
    model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    seconds = []
    for step in range(options.steps + 1):
        if step == 1:
            sent = bytes_sent()
        distributed.barrier()
        start = time.perf_counter()
        train_step(model, optimizer, samples[step * options.batch:(step + 1) * options.batch])
        seconds.append(time.perf_counter() - start)
    distributed.barrier()
    samples = options.steps * options.batch  # of this rank
    if options.rank == 0:
        print(json.dumps({"samples_per_second": options.world * samples / sum(seconds[1:]),
                          "wire_bytes_sent_per_sample": (bytes_sent() - sent) / samples,
                          "step_seconds": seconds[1:],
                          "parameters": sum(p.numel() for p in network.parameters())}))


if __name__ == "__main__":
    main()
