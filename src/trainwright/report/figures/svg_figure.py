"""Inline SVG figures: drawn by matplotlib, coloured by the page's style sheet.

No text of the data enters a figure: names are in the page, escaped by the template. A figure names
its colours by role (`INK`, `SERIES[2]`); the style sheet maps each role to a colour for light, dark
and print.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from markupsafe import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, MUTED, LINE = "#fe0001", "#fe0002", "#fe0003"
SERIES = tuple(f"#fe01{number:02x}" for number in range(10))
DASHES = ("-", "--", "-.", ":")
"""Series i has line style `DASHES[i // 5]`: ten series are not distinguishable by colour alone."""

_TOKENS = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)"} | {
    token: f"var(--c{number})" for number, token in enumerate(SERIES)
}
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "trainwright",
    "text.parse_math": False,
    "text.usetex": False,
    "axes.formatter.use_mathtext": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "lines.linewidth": 1.7,
    "lines.solid_capstyle": "round",
}
_WIDTH_INCHES = 4.4


@final
@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a figure's legend: the number of its series, and its name."""

    series: int
    name: str

    @property
    def dash(self) -> str:
        """Line style as an SVG dash array."""
        return ("none", "5 2.5", "6 2 1.5 2", "1.5 2")[self.series // 5]


@final
@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with title, caption and an accessible `label`."""

    title: str
    label: str
    svg: Markup
    caption: str = ""
    keys: tuple[Key, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Panel:
    """A drawing job: a name unique on the page, the height and the drawing function."""

    name: str
    draw: Callable[[Axes], None]
    height_inches: float = 3.0
    below: Sequence[Callable[[Axes], None]] = field(default_factory=tuple)
    """Drawn in a low strip under the figure on a shared x axis; at most one."""


def draw_svg(panel: Panel) -> Markup:
    """Render as an `<svg>` element, deterministic for the same numbers."""
    return Markup(_inlined(_drawn(panel), panel.name))  # noqa: S704  holds numbers only


def _drawn(panel: Panel) -> str:
    """The panel as a file of SVG."""
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # Glyphs missing in matplotlib's font do not matter: the browser draws the text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas = Canvas(figsize=(_WIDTH_INCHES, panel.height_inches), dpi=FigureCanvasSVG.fixed_dpi)
        FigureCanvasSVG(canvas)
        if panel.below:
            upper, lower = canvas.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [4, 1]})
            panel.draw(upper)
            panel.below[0](lower)
        else:
            panel.draw(canvas.subplots())
        return _exported(canvas)


def _exported(canvas: Canvas) -> str:
    """Export a figure as SVG. The layout is applied once here: as a figure property it would cost
    another drawing."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    ConstrainedLayoutEngine().execute(canvas)
    stream = io.StringIO()
    canvas.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _inlined(text: str, name: str) -> str:
    """Strip the file header, make ids unique and leave colours to the page."""
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style type=\"text/css\">.*?</style>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", svg)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)
    svg = re.sub(r"#fe0[01][0-9a-f]{2}", lambda m: _TOKENS.get(m[0], m[0]), svg)
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    return svg.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1).strip()
