"""A drawing of the servers' load over time, as SVG."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 62, 130, 46, 50  # around the axes
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#666666")
DASHES = ("", "7 3", "2 3", "9 3 2 3")  # so that lines differ without colours, too
PLAN_COLOUR, PLAN_DASH = "#999", "4 3"  # of the vertical lines
SMOOTH_S = 1.5


def ticks(limit, most):
    """Round values from 0 to `limit`, at most `most` steps."""
    for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200):
        if limit / step <= most:
            break
    return [n * step for n in range(int(limit / step + 1e-9) + 1)]


def smoothed(points):
    """Means over SMOOTH_S seconds before and after: single samples are noisy."""
    result = []
    for t, _ in points:
        near = [y for at, y in points if abs(at - t) <= SMOOTH_S]
        result.append((t, sum(near) / len(near)))
    return result


class Chart:
    """A chart with linear axes from (0, 0) to (seconds, top)."""

    def __init__(self, seconds, top):
        self._seconds, self._top = seconds, top
        self._parts = []
        self._rows = 0  # of the legend

    def x(self, seconds):
        return LEFT + seconds / self._seconds * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - min(value, self._top) / self._top * (HEIGHT - TOP - BOTTOM)

    def line(self, points, colour, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                           f'stroke-width="{width}" stroke-dasharray="{dash or "none"}"/>')

    def text(self, x, y, words, anchor="start", size=12, turn=False, colour="#222"):
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                           f'text-anchor="{anchor}"{turned}>{escape(words)}</text>')

    def axes(self, what):
        right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value in ticks(self._top, 6):
            self.line([(LEFT, self.y(value)), (right, self.y(value))], "#ddd")
            self.text(LEFT - 8, self.y(value) + 4, f"{value:g}", "end")
        for second in ticks(self._seconds, 10):
            self.line([(self.x(second), floor), (self.x(second), floor + 5)], "#222")
            self.text(self.x(second), floor + 18, f"{second:g}", "middle")
        self.line([(LEFT, TOP), (LEFT, floor), (right, floor)], "#222")
        self.text((LEFT + right) / 2, HEIGHT - 12, "seconds since the first sample", "middle")
        self.text(18, (TOP + floor) / 2, what, "middle", turn=True)

    def mark(self, seconds, words, colour):
        """A vertical line, named above the axes."""
        self.line([(self.x(seconds), TOP), (self.x(seconds), HEIGHT - BOTTOM)], colour,
                  dash=PLAN_DASH)
        self.text(self.x(seconds), TOP - 4, words, "middle", 10, colour=colour)

    def legend(self, words, colour, width=1.0, dash=""):
        """Adds a line of the legend."""
        row = TOP + 10 + 20 * self._rows
        self._rows += 1
        self.line([(WIDTH - RIGHT + 14, row), (WIDTH - RIGHT + 40, row)], colour, width, dash)
        self.text(WIDTH - RIGHT + 46, row + 4, words)

    def svg(self, title):
        self.text(LEFT, 18, title, size=14)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
                + "".join(self._parts) + "</svg>\n")


def write_chart(path, title, watch):
    """`watch`: a LoadWatch that has seen training."""
    lines, what = watch.series()
    points = [point for line in lines.values() for point in line]
    if not points:
        return
    chart = Chart(max(t for t, _ in points), max(1.5, 1.1 * max(y for _, y in points)))
    chart.axes(f"{what} of a server / mean")
    told = -1e9
    for seconds, version in watch.plan_changes():
        # Names of plans that follow each other closely would overlap.
        chart.mark(seconds, f"plan {version}" if chart.x(seconds) - told > 45 else "", PLAN_COLOUR)
        told = chart.x(seconds) if chart.x(seconds) - told > 45 else told
    for seconds, event in watch.events:
        chart.mark(seconds, "", "#b00")
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
