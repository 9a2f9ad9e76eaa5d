"""Tables of figures, and the text that tools/bench/network prints."""

TRAINING_COLUMNS = {
    "samples/s": "samples_per_second", "of the first": "share_of_first", "B sent":
    "bytes_sent_per_sample", "B received": "bytes_received_per_sample", "B a server":
    "bytes_per_sample_and_server", "wire sent": "wire_bytes_sent_per_sample", "wire received":
    "wire_bytes_received_per_sample", "server CPU": "server_cpu_share", "worker CPU":
    "worker_cpu_share", "P@1": "p_at_1"}
CHECK_COLUMNS = {"asked Mbit/s": "asked_mbit", "measured": "measured_mbit", "asked RTT ms":
                 "asked_rtt_ms", "measured RTT": "measured_rtt_ms", "switch": "switch"}
DENSE_COLUMNS = {"samples/s": "samples_per_second", "B sent": "wire_bytes_sent_per_sample"}


def shown(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return "-" if value is None else str(value)


def table(columns, rows):
    """A table of the columns (title: key) whose keys the rows have; the first is left-aligned."""
    columns = {title: key for title, key in columns.items() if key in rows[0]}
    cells = [list(columns), *([shown(row[key]) for key in columns.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
             for line in cells)
    return "\n".join(lines) + "\n"


def markdown(columns, rows):
    """The same as a Markdown table; its columns are aligned to the right but for the first."""
    lines = [" | ".join(columns), " | ".join(["---"] + ["---:"] * (len(columns) - 1)),
             *(" | ".join(shown(row.get(key)) for key in columns.values()) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def text_of(results):
    parts = [", ".join(f"{key} {value}" for key, value in results["settings"].items()) + "\n"]
    if "self_check" in results:
        parts.append(table({"link": "link"} | CHECK_COLUMNS, results["self_check"]))
    if "links" in results:
        parts.append(table({"links": "link"} | TRAINING_COLUMNS, results["links"]))
    if "workers" in results:
        workers = results["workers"]
        title = f"workers on {workers['worker_link']}, servers on {workers['server_link']}"
        parts.append(table({title: "workers"} | TRAINING_COLUMNS, workers["runs"]) +
                     f"ratio {workers['ratio']:.2f}\n")
    if "dense" in results:
        dense = results["dense"]
        rows = [{"way": "D-SLIDE"} | dense["dslide"],
                {"way": "dense all-reduce"} | dense["all_reduce"],
                {"way": "the same, computing in no time"} | dense["all_reduce"] |
                {"samples_per_second": dense["all_reduce_link_limit"]}]
        title = f"on {dense['link']}, {dense['labels']} labels"
        parts.append(table({title: "way"} | DENSE_COLUMNS, rows) + f"ratio {dense['ratio']:.1f}, "
                     f"to no time {dense['ratio_to_link_limit']:.1f}\n")
    return "\n".join(parts).rstrip()
