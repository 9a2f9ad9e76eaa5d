"""A drawing of the servers' load over time, as SVG."""

from chart import COLOURS, DASHES, TOP, Chart

PLAN_COLOUR, PLAN_DASH = "#999", "4 3"  # of the vertical lines
SMOOTH_S = 1.5


def smoothed(points):
    """Means over SMOOTH_S seconds before and after: single samples are noisy."""
    result = []
    for t, _ in points:
        near = [y for at, y in points if abs(at - t) <= SMOOTH_S]
        result.append((t, sum(near) / len(near)))
    return result


def write_chart(path, title, watch):
    """`watch`: a LoadWatch that has seen training."""
    lines, what = watch.series()
    points = [point for line in lines.values() for point in line]
    if not points:
        return
    chart = Chart(max(t for t, _ in points), max(1.5, 1.1 * max(y for _, y in points)))
    chart.axes("seconds since the first sample", f"{what} of a server / mean")
    told = -1e9
    for seconds, version in watch.plan_changes():
        # Names of plans that follow each other closely would overlap.
        chart.mark(seconds, f"plan {version}" if chart.x(seconds) - told > 45 else "", PLAN_COLOUR,
                   PLAN_DASH)
        told = chart.x(seconds) if chart.x(seconds) - told > 45 else told
    for seconds, event in watch.events:
        chart.mark(seconds, "", "#b00", PLAN_DASH)
        chart.text(chart.x(seconds) + 4, TOP + 12, event, size=11, colour="#b00")
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        dash = DASHES[number % len(DASHES)]
        chart.line([(chart.x(t), chart.y(y)) for t, y in smoothed(line)], colour, 1.8, dash)
        chart.legend(name, colour, 1.8, dash)
    if watch.plan_changes():
        chart.legend("new slot plan", PLAN_COLOUR, dash=PLAN_DASH)
    with open(path, "w") as file:
        file.write(chart.svg(title))
