"""Measures a link of the emulated network: throughput of a TCP connection, round-trip time."""

import socket
import statistics
import threading
import time

from netlab import Host, Network, inside

BULK_S = 4.0
PINGS = 50
PORT = 7000


def measure_link(link, build, logs):
    """Requested and measured figures of two hosts that both have this link."""
    with Network([Host("a", link), Host("b", link)], build, logs) as network:
        rtt_ms, mbit = ping(network), bulk(network) / 1e6
    return {"link": link.name, "asked_mbit": link.bits_per_s / 1e6 or None, "measured_mbit": mbit,
            "asked_rtt_ms": 2 * link.delay_ms, "measured_rtt_ms": rtt_ms,
            "switch": network.counters}


def make_socket(network, host, kind):
    with inside(network.namespace(host)):
        made = socket.socket(socket.AF_INET, kind)
    made.settimeout(10)
    return made


def ping(network):
    """Median round-trip time of small datagrams, ms."""
    def answer():
        for _ in range(PINGS):
            there.sendto(*there.recvfrom(64))

    def one_time_ms():
        start = time.perf_counter()
        here.sendto(b"ping", (network.address("b"), PORT))
        here.recv(64)
        return 1000 * (time.perf_counter() - start)

    with make_socket(network, "a", socket.SOCK_DGRAM) as here, \
            make_socket(network, "b", socket.SOCK_DGRAM) as there:
        there.bind((network.address("b"), PORT))
        threading.Thread(target=answer, daemon=True).start()
        return statistics.median(one_time_ms() for _ in range(PINGS))


def bulk(network):
    """Bits per second of one TCP connection, without the first quarter of the time."""
    def send():
        with make_socket(network, "a", socket.SOCK_STREAM) as sender:
            sender.connect((network.address("b"), PORT))
            end = time.monotonic() + BULK_S
            while time.monotonic() < end:
                sender.send(bytes(1 << 18))

    with make_socket(network, "b", socket.SOCK_STREAM) as listener:
        listener.bind((network.address("b"), PORT))
        listener.listen()
        threading.Thread(target=send, daemon=True).start()
        connection, _ = listener.accept()
        with connection:
            begin, count = time.monotonic(), 0
            while data := connection.recv(1 << 18):
                if BULK_S / 4 < time.monotonic() - begin <= BULK_S:
                    count += len(data)
    return 8 * count / (0.75 * BULK_S)
