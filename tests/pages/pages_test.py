#!/usr/bin/python3
"""Checks the status page and the report in a headless browser, by runs of real processes.

    pages_test.py BUILD_DIRECTORY
"""
import functools
import http.server
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

from browser import Browser

NAME = "run <b>one"  # a name of a run, and of a label, that would be markup
LABEL = "<img src=x onerror=alert(1)>"
LABELS = [LABEL, *(f"label {i}" for i in range(1, 40))]
TRAIN, TEST, HELD_OUT = 1000, 60, 100
PHONE = 390
WORKERS = 300
MOST_BYTES = 100_000  # of the page and its data

NO_MARKUP = "document.querySelectorAll('b:not(.legend b), img').length === 0"
WIDTH = "document.documentElement.scrollWidth"
CHARTS = (
    "[...document.querySelectorAll('.chart:not([hidden]) h2')].map(node => node.firstChild.data)"
)
POINTS = "document.querySelector('polyline').getAttribute('points').split(' ').length"
# Text or curves beyond the edges of their plot.
CLIPPED = """[...document.querySelectorAll('.plot text, .plot polyline')].filter(node => {
  const box = node.getBoundingClientRect(), plot = node.closest('svg').getBoundingClientRect();
  return box.width > 0 && (box.left < plot.left - 1 || box.right > plot.right + 1 ||
    box.top < plot.top - 1 || box.bottom > plot.bottom + 1);
}).map(node => node.textContent || node.getAttribute('class'))"""


def write_samples(path, samples, seed):
    source = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(samples):
            label = source.randrange(len(LABELS))
            words = [f"word{label}"] * 3 + [f"noise{source.randrange(50)}" for _ in range(3)]
            file.write(json.dumps({"text": " ".join(words), "labels": [LABELS[label]]}) + "\n")


def sets(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


class Runs:
    def __init__(self, build, directory):
        self.dslide = f"{build}/bin/dslide"
        self.directory = directory
        write_samples(f"{directory}/train.jsonl", TRAIN, 1)
        write_samples(f"{directory}/test.jsonl", TEST, 2)

    def path(self, name):
        return f"{self.directory}/{name}"

    def train(self, name, more, failpoints):
        settings = {
            "train.data": self.path("train.jsonl"),
            "train.test": self.path("test.jsonl"),
            "model.hidden": 16,
            "train.batch": 32,
            "train.heldout": HELD_OUT,
            "train.evaluate_samples": 20,
            "cluster.executors": 1,
        }
        return subprocess.Popen(
            [self.dslide, "train", "--run-dir", self.path(name), "--servers=2", "--workers=2"]
            + sets(settings | more),
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"DSLIDE_FAILPOINTS": failpoints},
        )

    def report(self, *arguments):
        return subprocess.run(
            [self.dslide, "report", *arguments], capture_output=True, text=True, check=False
        )


def status_page(process):
    lines = (line for line in process.stdout if line.startswith("status page: "))
    return next(lines).split(": ")[1].strip()


def check_page(browser, charts):
    """What holds for every page, in every width."""
    assert browser.evaluate(NO_MARKUP), "a name became markup"
    found = browser.evaluate(CHARTS)
    assert found == charts, found
    clipped = browser.evaluate(CLIPPED)
    assert not clipped, clipped
    assert not browser.errors, browser.errors


def check_narrow(browser):
    browser.size(PHONE, 844, "dark")
    assert browser.evaluate(WIDTH) <= PHONE, browser.evaluate(WIDTH)


def check_keyboard(browser):
    """The arrow keys show earlier values, Escape the last ones."""
    browser.evaluate("document.querySelector('.chart .plot').focus()")
    browser.key("ArrowLeft")
    browser.key("Home")
    shown = browser.texts(".chart .legend")[0]
    assert re.search(r"at 0:\d\d$", shown), shown
    browser.key("Escape")
    assert "at 0:" not in browser.texts(".chart .legend")[0]
    assert browser.evaluate(
        "[...document.querySelectorAll('.card:not([hidden]) :is(.plot[tabindex], .scroll, .strips)')]"
        ".every(node => node.tabIndex === 0 && node.hasAttribute('aria-label'))"
    )


LIVE_CHARTS = [
    "Loss",
    "Precision",
    "Gain and rare labels",
    "Recall of the active set",
    "Throughput",
    "Bytes",
    "Neurons scored",
]


def check_live(browser, url):
    browser.size(1200, 900)
    browser.open(url)
    # All of it comes: training, an evaluation, a checkpoint, and curves of more than one point.
    browser.wait("document.querySelector('#state').textContent === 'training'")
    browser.wait("document.querySelectorAll('.whole tbody tr').length === 10")
    browser.wait(
        "[...document.querySelectorAll('td')].some(cell => cell.textContent.startsWith('step-'))"
    )
    browser.wait(f"document.querySelectorAll('polyline').length >= 10 && {POINTS} >= 3")
    check_page(browser, LIVE_CHARTS)
    assert browser.text("#name") == NAME, browser.text("#name")
    facts = browser.text("#facts")
    assert facts.startswith(
        f"{TRAIN - HELD_OUT:,} training samples · {HELD_OUT} held out · {TEST} test samples · "
        f"{len(LABELS)} labels"
    ), facts
    assert "H = 16" in facts, facts
    tiles = dict(zip(browser.texts(".tiles dt"), browser.texts(".tiles dd")))
    assert re.match(r"\d+\.\d\d\s", tiles["P@1"]) and re.match(
        r"\d", tiles["bytes a sample"]
    ), tiles
    cells = browser.texts("td")
    for name in ("server-1", "server-2", "worker-1", "worker-2"):
        assert name in cells, cells
    assert any(cell.startswith("slot plan 1: ") for cell in cells), cells
    strips = browser.evaluate(
        "[...document.querySelectorAll('[data-server]')].map(strip => strip.dataset.server)"
    )
    assert strips == ["server-1", "server-2"], strips
    labels = set(browser.texts(".chips li"))
    assert labels <= set(LABELS), labels
    check_keyboard(browser)
    # A reload shows the history that the scheduler has.
    points = browser.evaluate(POINTS)
    browser.open(url)
    browser.wait(f"document.querySelector('polyline') && {POINTS} >= {points}")
    check_narrow(browser)
    check_page(browser, LIVE_CHARTS)


def kill_child(parent, name):
    """Kills the process that `dslide train` has started under a name."""
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                is_child = int(file.read().rsplit(")", 1)[1].split()[1]) == parent.pid
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                words = file.read().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if is_child and name in words:
            return os.kill(pid, signal.SIGKILL)
    raise AssertionError(f"no process {name}")


LOSSES = "document.querySelectorAll('.chart:not([hidden]) .loss').length"


def check_loss(browser, url, training):
    """A server that is lost leaves a mark in every chart, and in its row of the loads."""
    browser.size(1200, 900)
    browser.open(url)
    browser.wait("document.querySelectorAll('polyline').length >= 10")
    assert browser.evaluate(LOSSES) == 0
    kill_child(training, "server-2")
    browser.wait(f"{LOSSES} >= {len(LIVE_CHARTS)}")
    legend = browser.texts(".chart .legend")[0]
    assert re.search(r"✕ server-2 was lost at 0:\d\d", legend), legend
    assert browser.evaluate("document.querySelectorAll('[data-server=server-2] .loss').length") == 1
    assert browser.evaluate("document.querySelectorAll('[data-server=server-1] .loss').length") == 0
    browser.evaluate("document.querySelector('input[value=epochs]').click()")
    assert browser.evaluate(LOSSES) == len(LIVE_CHARTS)
    check_page(browser, LIVE_CHARTS)


class Replay(http.server.BaseHTTPRequestHandler):
    """Serves recorded pages."""

    def __init__(self, pages, *arguments):
        self.pages = pages
        super().__init__(*arguments)

    def do_GET(self):
        body = self.pages.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "application/json")
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


def with_many_workers(status):
    members = [member for member in status["members"] if member["role"] == "server"]
    worker = next(member for member in status["members"] if member["role"] == "worker")
    for i in range(WORKERS):
        members.append(
            worker
            | {
                "name": f"<b>worker-{i}",
                "samples_per_second": 1000 + i,
                "batches_in_flight": 2,
                "straggler": i == 7,
                "state": "suspect" if i < 3 else "working",
            }
        )
    return status | {"members": members}


def check_many_workers(browser, pages):
    pages = dict(pages)
    pages["/api/status"] = json.dumps(with_many_workers(json.loads(pages["/api/status"]))).encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Replay, pages))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        browser.size(1200, 900)
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.wait(
            "[...document.querySelectorAll('td')].some(cell => cell.textContent === '<b>worker-299')"
        )
        browser.wait("document.querySelectorAll('polyline').length > 0")
        lines = browser.texts("p")
        summary = next(line for line in lines if line.startswith(f"{WORKERS} workers: "))
        assert summary == (
            f"{WORKERS} workers: 3 suspect, 296 working, 1 straggler. 344,850 samples/s; slowest "
            "1,000, median 1,150, fastest 1,299. 600 batches in flight."
        ), summary
        rows = browser.evaluate("document.querySelectorAll('[aria-label=Workers] tbody tr').length")
        assert rows == WORKERS, rows
        height = browser.evaluate("document.querySelector('[aria-label=Workers]').clientHeight")
        assert height < 500, height
        check_page(browser, LIVE_CHARTS)
        check_narrow(browser)
        assert not browser.errors, browser.errors
        browser.open("about:blank")  # asks no more
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_report(browser, runs):
    one, two, page = runs.path(NAME), runs.path("two"), runs.path("report.html")
    assert runs.report(two, "--output", page).stdout == page + "\n"
    assert os.path.getsize(page) < MOST_BYTES
    browser.size(1200, 900)
    browser.open("file://" + page)
    check_page(browser, LIVE_CHARTS)
    assert browser.text("#name") == "two" and browser.text("#state").endswith("finished")
    with open(f"{two}/summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    cells = browser.texts("td")
    assert cells[cells.index("P@1 %") + 1] == f"{100 * summary['p_at_1']:.2f}", cells
    assert cells[cells.index("train.batch") + 1 :][:2] == ["32", "0 → 128"], cells
    assert "train.unit_batches" not in cells, "a key that has its default"
    assert any(cell.startswith("step-") for cell in cells) and set(
        browser.texts(".chips li")
    ) <= set(LABELS)
    check_keyboard(browser)
    check_narrow(browser)
    assert browser.evaluate(
        "(node => node.scrollWidth <= node.clientWidth)(document.querySelector('[aria-label=Results]'))"
    )
    check_page(browser, LIVE_CHARTS)

    assert runs.report(one, two, "--output", page).returncode == 0
    browser.size(1200, 900)
    browser.open("file://" + page)
    check_page(browser, LIVE_CHARTS)
    assert browser.text("#name") == f"2 runs: {NAME}, two"
    cells = browser.texts("td")
    assert cells[cells.index("train.epochs") + 1 :][:3] == ["100000", "4", "0 → 16"], cells
    assert "train.batch" not in cells, "a key that does not differ"
    curves = browser.evaluate(
        "[...document.querySelectorAll('polyline')].map(line => line.dataset.name)"
    )
    assert browser.evaluate(LOSSES) == len(LIVE_CHARTS)
    assert f"{NAME}: server-2 was lost at 0:" in browser.texts(".chart .legend")[0]
    assert f"{NAME} P@1" in curves and "two P@1" in curves and "two loss" in curves, curves
    # Over epochs both begin at the same place.
    browser.evaluate("document.querySelector('input[value=epochs]').click()")
    assert browser.texts(".chart .legend")[0].startswith(f"{NAME} loss")
    check_narrow(browser)
    check_page(browser, LIVE_CHARTS)


def check_wrong_uses(runs):
    def refused(code, says, *arguments):
        outcome = runs.report(*arguments)
        assert outcome.returncode == code, outcome
        assert outcome.stderr.count("\n") == 1 and says in outcome.stderr, outcome.stderr
        assert not outcome.stdout, outcome.stdout

    before = sorted(os.listdir(runs.directory))
    good, page = runs.path("two"), runs.path("page.html")
    refused(2, f"{runs.path('none')}: no such directory", runs.path("none"), "--output", page)
    text = "not a run directory, there is no config.ini in it"
    refused(2, text, good, runs.directory, "--output", page)
    text = "none/page.html: cannot create: No such file or directory"
    refused(2, text, good, "--output", runs.path("none/page.html"))
    refused(2, "is a directory (expected a file)", good, "--output", runs.directory)
    refused(2, "--output", good)
    refused(2, "RUN", "--output", page)
    text = "/dev/full: cannot write: No space left on device"
    refused(1, text, good, "--output", "/dev/full")
    with open(f"{good}/metrics.jsonl", "r+", encoding="utf-8") as file:
        lines = file.readlines()
        file.seek(0)
        file.writelines([lines[0], "{\n", *lines[1:]])
    text = "metrics.jsonl:2: not a JSON object; remove the line to report without it"
    refused(2, text, good, "--output", page)
    assert sorted(os.listdir(runs.directory)) == before, os.listdir(runs.directory)


def check_token(browser, runs):
    """Outside loopback the page shows nothing without the token of its address."""
    scheduler = subprocess.Popen(
        [runs.dslide + "-scheduler", "--run-dir", runs.path("token")]
        + sets({"train.data": runs.path("train.jsonl"), "cluster.status_bind": "tcp://*:*"}),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = re.sub("//[^/]*:", "//127.0.0.1:", status_page(scheduler))
        page, token = url.split("#token=")
        assert len(token) == 43, url
        for wrong in ("", "#token=" + "x" * 43):
            browser.open(page + wrong)
            browser.wait("document.querySelector('#state').textContent.includes('needs the token')")
            assert all("401" in error for error in browser.errors), browser.errors
            browser.open("about:blank")
        browser.errors = []
        browser.open(url)
        browser.wait("document.querySelector('#state').textContent === 'waiting for servers'")
        assert browser.evaluate("document.querySelector('#more').hidden")
        assert not browser.errors, browser.errors
        browser.open("about:blank")
    finally:
        scheduler.send_signal(signal.SIGTERM)
        scheduler.communicate()


def main():
    with tempfile.TemporaryDirectory() as directory, Browser() as browser:
        runs = Runs(sys.argv[1], directory)
        training = runs.train(
            NAME,
            {"train.epochs": 100000, "checkpoint.interval_s": 1},
            "worker.before-report=delay:10",
        )
        try:
            url = status_page(training)
            check_live(browser, url)
            pages = {}
            for path in ("", "api/status", "api/history"):
                with urllib.request.urlopen(url + path) as answer:
                    pages["/" + path] = answer.read()
            assert sum(map(len, pages.values())) < MOST_BYTES, {
                path: len(body) for path, body in pages.items()
            }
            check_loss(browser, url, training)
            browser.open("about:blank")
        finally:
            training.send_signal(signal.SIGTERM)
            training.communicate()
        assert training.returncode == 85, training.returncode
        check_many_workers(browser, pages)
        check_token(browser, runs)

        short = runs.train("two", {"train.epochs": 4}, "worker.before-report=delay:60")
        short.communicate()
        assert short.returncode == 0, short.returncode
        check_report(browser, runs)
        check_wrong_uses(runs)


if __name__ == "__main__":
    main()
