"""Charts of bars as SVG: one panel below the other, with a logarithmic scale and the value above each bar.

A chart has its own background, so that it is readable on light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

import attrs

WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 880, 64, 16
HEAD_HEIGHT, PANEL_HEIGHT, PLOT_TOP, PLOT_HEIGHT, FOOT_HEIGHT = 66, 236, 40, 150, 30
BAR_GAP, GROUP_PADDING = 2, 9
LEAST_BAR = 0.3  # of a power of ten, so that the lowest bar has room for its label
COLORS = ("#1976b8", "#c04f00", "#007a5a")  # distinguishable by color-blind readers, and dark enough for white text
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .background { fill: #ffffff; stroke: #d0d7de; }
  .title { font-size: 15px; font-weight: 600; }
  .panel { font-size: 13px; font-weight: 600; }
  .quiet { font-size: 11px; fill: #57606a; }
  .value { font-size: 10px; text-anchor: middle; }
  .inside { fill: #ffffff; }
  .middle { text-anchor: middle; }
  .end { text-anchor: end; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .whisker { stroke: #24292f; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .background { fill: #161b22; stroke: #30363d; }
    .quiet { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .whisker { stroke: #e6edf3; }
  }
"""


@attrs.frozen
class Bar:
    """A value, and optionally a higher one, shown as a line above the bar. Then both are labelled."""

    value: float
    upper: float | None = None


@attrs.frozen
class Panel:
    """Bars in groups: for each group one bar of each series."""

    title: str
    hint: str
    groups: Sequence[Sequence[Bar]]


@attrs.frozen
class Chart:
    """Panels with the same series and groups. A group has two lines of text below it."""

    title: str
    hint: str
    series: Sequence[str]
    groups: Sequence[tuple[str, str]]
    panels: Sequence[Panel]

    def svg(self) -> str:
        """Return the chart as an SVG document."""
        height = HEAD_HEIGHT + PANEL_HEIGHT * len(self.panels) + 8
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                f'<rect class="background" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
                *self._head(),
                *(
                    line
                    for number, panel in enumerate(self.panels)
                    for line in self._panel(panel, HEAD_HEIGHT + number * PANEL_HEIGHT)
                ),
                "</svg>\n",
            ]
        )

    def _head(self) -> Iterator[str]:
        yield _text(16, 26, self.title, "title")
        yield _text(16, 46, self.hint, "quiet")
        x = WIDTH - MARGIN_RIGHT - 100 * len(self.series)
        for name, color in zip(self.series, COLORS, strict=False):
            yield f'<rect x="{x}" y="15" width="12" height="12" rx="2" fill="{color}"/>'
            yield _text(x + 18, 26, name)
            x += 100

    def _panel(self, panel: Panel, top: int) -> Iterator[str]:
        scale = _Scale.of(panel, top + PLOT_TOP)
        yield _text(16, top + 18, panel.title, "panel")
        yield _text(WIDTH - MARGIN_RIGHT, top + 18, panel.hint, "quiet end")
        for tick in scale.ticks():
            y = scale.y(tick)
            yield f'<path class="grid" d="M{MARGIN_LEFT} {y:.1f}H{WIDTH - MARGIN_RIGHT}"/>'
            yield _text(MARGIN_LEFT - 8, y + 4, _short(tick), "quiet end")
        width = (WIDTH - MARGIN_LEFT - MARGIN_RIGHT) / len(self.groups)
        for number, (bars, words) in enumerate(zip(panel.groups, self.groups, strict=True)):
            x = MARGIN_LEFT + number * width
            yield from self._bars(bars, scale, x + GROUP_PADDING, width - 2 * GROUP_PADDING)
            yield _text(x + width / 2, scale.bottom + 16, words[0], "middle")
            yield _text(x + width / 2, scale.bottom + FOOT_HEIGHT, words[1], "quiet middle")

    def _bars(self, bars: Sequence[Bar], scale: _Scale, x: float, width: float) -> Iterator[str]:
        step = width / len(bars)
        for number, (bar, color) in enumerate(zip(bars, COLORS, strict=False)):
            left, y = x + number * step + BAR_GAP, scale.y(bar.value)
            middle = left + step / 2 - BAR_GAP
            yield (
                f'<rect x="{left:.1f}" y="{y:.1f}" width="{step - 2 * BAR_GAP:.1f}"'
                f' height="{scale.bottom - y:.1f}" rx="2" fill="{color}"/>'
            )
            if bar.upper is None:
                yield _text(middle, y - 4, _short(bar.value), "value")
                continue
            top = scale.y(bar.upper)
            ends = f"M{middle:.1f} {y:.1f}V{top:.1f}M{middle - 5:.1f} {top:.1f}h10"
            yield f'<path class="whisker" d="{ends}"/>'
            yield _text(middle, top - 4, _short(bar.upper), "value")
            yield _text(middle, min(y + 12, scale.bottom - 3), _short(bar.value), "value inside")


@attrs.frozen
class _Scale:
    """A logarithmic scale between two powers of ten."""

    low: int
    high: int
    top: float

    @classmethod
    def of(cls, panel: Panel, top: float) -> _Scale:
        values = [value for bars in panel.groups for bar in bars for value in (bar.value, bar.upper) if value]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        if math.log10(min(values)) - low < LEAST_BAR:
            low -= 1
        return cls(low, max(high, low + 1), top)

    @property
    def bottom(self) -> float:
        return self.top + PLOT_HEIGHT

    def y(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self.low)) - self.low) / (self.high - self.low)
        return self.bottom - share * PLOT_HEIGHT

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _short(value: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.2g}" if value < 10 else f"{value:.3g}"


def _text(x: float, y: float, words: str, classes: str = "") -> str:
    kind = f' class="{classes}"' if classes else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(words)}</text>'
