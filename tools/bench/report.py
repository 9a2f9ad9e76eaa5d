"""Tables of figures, and the text that tools/bench/network prints."""

TRAINING_COLUMNS = {
    "samples/s": "samples_per_second", "of the first": "share_of_first", "B sent":
    "bytes_sent_per_sample", "B received": "bytes_received_per_sample", "B a server":
    "bytes_per_sample_and_server", "wire sent": "wire_bytes_sent_per_sample", "wire received":
    "wire_bytes_received_per_sample", "server CPU": "server_cpu_share", "worker CPU":
    "worker_cpu_share"}
CHECK_COLUMNS = {"asked Mbit/s": "asked_mbit", "measured": "measured_mbit", "asked RTT ms":
                 "asked_rtt_ms", "measured RTT": "measured_rtt_ms", "switch": "switch"}
DENSE_COLUMNS = {"samples/s": "samples_per_second", "B sent": "wire_bytes_sent_per_sample"}


def shown(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return "-" if value is None else str(value)


def markdown(columns, rows):
    """A Markdown table of the columns (title: key) whose keys the first row has. All columns but
    the first are aligned to the right."""
    columns = {title: key for title, key in columns.items() if key in rows[0]}
    lines = [" | ".join(columns), " | ".join(["---"] + ["---:"] * (len(columns) - 1)),
             *(" | ".join(shown(row.get(key)) for key in columns.values()) for row in rows)]
    return "".join(f"| {line} |\n" for line in lines)


def text_of(results):
    parts = [", ".join(f"{key} {value}" for key, value in results["settings"].items()) + "\n"]
    if "self_check" in results:
        parts.append(markdown({"link": "link"} | CHECK_COLUMNS, results["self_check"]))
    if "links" in results:
        parts.append(markdown({"links": "link"} | TRAINING_COLUMNS, results["links"]))
    if "workers" in results:
        workers = results["workers"]
        title = f"workers on {workers['worker_link']}, servers on {workers['server_link']}"
        parts.append(markdown({title: "workers"} | TRAINING_COLUMNS, workers["runs"]) +
                     f"ratio {workers['ratio']:.2f}\n")
    if "dense" in results:
        dense = results["dense"]
        rows = [{"way": "D-SLIDE"} | dense["dslide"],
                {"way": "dense all-reduce"} | dense["all_reduce"],
                {"way": "the same, computing in no time"} | dense["all_reduce"] |
                {"samples_per_second": dense["all_reduce_link_limit"]}]
        title = f"on {dense['link']}, {dense['labels']} labels"
        parts.append(markdown({title: "way"} | DENSE_COLUMNS, rows) +
                     f"ratio {dense['ratio']:.1f}, to no time {dense['ratio_to_link_limit']:.1f}\n")
    return "\n".join(parts).rstrip()
