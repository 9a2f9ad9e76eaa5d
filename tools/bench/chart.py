"""A drawing of lines over two linear axes, as SVG."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 400
LEFT, RIGHT, TOP, BOTTOM = 62, 130, 46, 50  # around the axes
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#a6761d", "#666666")
DASHES = ("", "7 3", "2 3", "9 3 2 3")  # so that lines differ without colours, too


def ticks(low, high, most):
    """Round values from `low` to `high`, at most `most` steps. Times step by minutes."""
    for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3000, 6000, 12000):
        if (high - low) / step <= most:
            break
    return [n * step for n in range(math.ceil(low / step - 1e-9), int(high / step + 1e-9) + 1)]


class Chart:
    """A chart with linear axes from (0, floor) to (right, top)."""

    def __init__(self, right, top, floor=0):
        self._right, self._top, self._floor = right, top, floor
        self._parts = []
        self._rows = 0  # of the legend

    def x(self, value):
        return LEFT + value / self._right * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        share = (min(value, self._top) - self._floor) / (self._top - self._floor)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def line(self, points, colour, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                           f'stroke-width="{width}" stroke-dasharray="{dash or "none"}"/>')

    def dot(self, x, y, colour):
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')

    def text(self, x, y, words, anchor="start", size=12, turn=False, colour="#222"):
        turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                           f'text-anchor="{anchor}"{turned}>{escape(words)}</text>')

    def axes(self, along, up):
        """Draws the axes with their titles."""
        right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value in ticks(self._floor, self._top, 6):
            self.line([(LEFT, self.y(value)), (right, self.y(value))], "#ddd")
            self.text(LEFT - 8, self.y(value) + 4, f"{value:g}", "end")
        for value in ticks(0, self._right, 10):
            self.line([(self.x(value), floor), (self.x(value), floor + 5)], "#222")
            self.text(self.x(value), floor + 18, f"{value:g}", "middle")
        self.line([(LEFT, TOP), (LEFT, floor), (right, floor)], "#222")
        self.text((LEFT + right) / 2, HEIGHT - 12, along, "middle")
        self.text(18, (TOP + floor) / 2, up, "middle", turn=True)

    def mark(self, value, words, colour, dash):
        """A vertical line, named above the axes."""
        self.line([(self.x(value), TOP), (self.x(value), HEIGHT - BOTTOM)], colour, dash=dash)
        self.text(self.x(value), TOP - 4, words, "middle", 10, colour=colour)

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
