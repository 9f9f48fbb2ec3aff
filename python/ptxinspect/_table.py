"""Kernels by configuration, as a table: for a terminal, a notebook, a data frame."""

from __future__ import annotations

import html
import json
import os
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._results import Report


class Entry:
    """A kernel in one configuration: its figures, or why there are none."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        figures: Mapping[str, Any],
        error: Optional[str] = None,
        report: Optional[Callable[[], Report]] = None,
        made_from: Any = None,
    ) -> None:
        #: The kernel's name.
        self.name = name
        #: What it was compiled with: ``num_warps``, ``num_stages``, block sizes, …
        self.config: Dict[str, Any] = dict(config)
        #: A record as :meth:`Report.rows` gives it; empty where there is an error.
        self.figures: Dict[str, Any] = dict(figures)
        #: Why there are no figures.
        self.error = error
        #: The object it was made from: a ``triton.Config`` of ``compare``, else ``None``.
        self.made_from = made_from
        self._report = report

    @property
    def spills(self) -> bool:
        """Whether it spills."""
        return bool(self.figures.get("spill_instructions") or self.figures.get("spill_store_bytes"))

    @property
    def launchable(self) -> bool:
        """Whether an SM can hold a block of it."""
        return self.error is None and self.figures.get("blocks_per_sm") != 0

    def report(self) -> Report:
        """The full report."""
        if self._report is None:
            raise ValueError(f"{self.name}: there is no report: {self.error}")
        return self._report()

    def row(self) -> Dict[str, Any]:
        """One flat record."""
        head = {"name": self.name, **self.config}
        return {**head, **{key: value for key, value in self.figures.items() if key not in head}, "error": self.error}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for values in (self.__dict__.get("figures", {}), self.__dict__.get("config", {})):
                if name in values:
                    return values[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __repr__(self) -> str:
        config = ", ".join(f"{key}={value}" for key, value in self.config.items())
        return f"<{self.name} {config}>" if self.error is None else f"<{self.name} {config}: {self.error}>"


#: What a table shows of the figures: key, heading.
COLUMNS: Sequence[Tuple[str, str]] = (
    ("registers", "regs"),
    ("peak_live", "live"),
    ("spill_instructions", "spills"),
    ("spills_in_loops", "in loops"),
    ("threads", "threads"),
    ("smem_dynamic_bytes", "smem"),
    ("blocks_per_sm", "blocks"),
    ("warps_per_sm", "warps"),
    ("limiter", "limited by"),
    ("instructions", "instr"),
    ("advisories", "ptxas"),
    ("peak_at", "live most at"),
    ("spills_at", "spills most at"),
)


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "?"
    if key in ("peak_at", "spills_at"):
        return os.path.basename(str(value))
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "-"
    return str(value)


class Table(Sequence[Entry]):
    """Kernels by configuration. ``pandas.DataFrame(table.rows())`` makes a data frame of it."""

    def __init__(self, entries: Sequence[Entry], title: str = "") -> None:
        self._entries = list(entries)
        self._title = title

    @property
    def spilling(self) -> List[Entry]:
        """Those that spill."""
        return [entry for entry in self._entries if entry.spills]

    @property
    def failed(self) -> List[Entry]:
        """Those without figures."""
        return [entry for entry in self._entries if entry.error is not None]

    def sorted(self, by: str, reverse: bool = True) -> "Table":
        """The same by a figure, most first; what is not known comes last."""
        known = [entry for entry in self._entries if entry.row().get(by) is not None]
        rest = [entry for entry in self._entries if entry.row().get(by) is None]
        ordered = sorted(known, key=lambda entry: entry.row()[by], reverse=reverse)
        return Table([*ordered, *rest], self._title)

    def rows(self) -> List[Dict[str, Any]]:
        """One flat record an entry."""
        return [entry.row() for entry in self._entries]

    def to_dict(self) -> Dict[str, Any]:
        """For programs: ``{"entries": [{"name", "config", "figures", "error"}]}``."""
        entries = self._entries
        keys = ("name", "config", "figures", "error")
        return {"entries": [{key: getattr(entry, key) for key in keys} for entry in entries]}

    def to_json(self) -> str:
        """The same as JSON; what JSON has no form for is text."""
        return json.dumps(self.to_dict(), default=str)

    def _cells(self) -> Tuple[List[str], List[List[str]]]:
        names: List[str] = []
        for entry in self._entries:
            names.extend(key for key in entry.config if key not in names)
        shown = [(key, head) for key, head in COLUMNS if key not in names and self._says(key)]
        heads = ["kernel", *names, *(head for _, head in shown)]
        lines = []
        for entry in self._entries:
            line = [entry.name, *(_shown(name, entry.config.get(name, "-")) for name in names)]
            if entry.error is None:
                line.extend(_shown(key, entry.figures.get(key)) for key, _ in shown)
            else:
                line.append(entry.error.splitlines()[0] if entry.error else "it failed")
            lines.append(line)
        return heads, lines

    def _says(self, key: str) -> bool:
        """Whether a column has something to say."""
        return any(entry.figures.get(key) not in (None, [], ()) for entry in self._entries)

    def to_text(self) -> str:
        """For people; ``!`` marks what spills."""
        heads, lines = self._cells()
        full = [line for line in lines if len(line) == len(heads)]
        widths = [max(len(_plain(cell)) for cell in column) for column in zip(heads, *full)]

        def row(mark: str, cells: Sequence[str]) -> str:
            padded = (f"{_plain(cell):<{width}}" for cell, width in zip(cells, widths))
            return f"{mark} " + "  ".join(padded).rstrip()

        def line(entry: Entry, cells: List[str]) -> str:
            if entry.error is None:
                return row("!" if entry.spills else " ", cells)
            return row("x", cells[:-1]) + "  " + _plain(cells[-1])

        body = [line(entry, cells) for entry, cells in zip(self._entries, lines)]
        title = [_plain(self._title)] if self._title else []
        return "\n".join([*title, row(" ", heads), *body])

    def _repr_html_(self) -> str:
        heads, lines = self._cells()
        cell = "padding:2px 8px;text-align:left;white-space:nowrap"

        def row(tag: str, cells: Sequence[str], style: str = "") -> str:
            inside = "".join(f'<{tag} style="{cell}">{html.escape(one)}</{tag}>' for one in cells)
            return f'<tr style="{style}">{inside}</tr>'

        def line(entry: Entry, cells: List[str]) -> str:
            if entry.error is None:
                return row("td", cells, "background:#e5484d33" if entry.spills else "")
            left = len(heads) - len(cells) + 1
            last = f'<td colspan="{left}" style="{cell}">{html.escape(cells[-1])}</td>'
            return row("td", cells[:-1], "color:#e5484d").replace("</tr>", f"{last}</tr>")

        body = "".join(line(entry, cells) for entry, cells in zip(self._entries, lines))
        title = f"<caption>{html.escape(self._title)}</caption>" if self._title else ""
        return f'<table style="font-size:12px">{title}{row("th", heads)}{body}</table>'

    def __getitem__(self, at: Any) -> Any:
        return Table(self._entries[at], self._title) if isinstance(at, slice) else self._entries[at]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<ptxinspect.Table: {len(self)} kernels, {len(self.spilling)} of them spill>"


def _plain(text: str) -> str:
    """Text of a file, safe for a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
