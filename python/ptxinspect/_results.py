"""What the functions of this package return."""

from __future__ import annotations

import html
import json
from typing import Any, Dict, Iterator, List, Literal, Optional, Protocol, Sequence, Tuple, Union

from . import _ptxinspect
from ._model import AccessFacts, Advisory, Finding, Kernel, LoopCost, Unit
from ._view import View


def _frame(page: str, height: int) -> str:
    """A page in a notebook's cell, apart from the notebook's own style and scripts."""
    style = f"width:100%;height:{height}px;border:1px solid #8884"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page, quote=True)}"></iframe>'


class _HasJson(Protocol):
    def to_json(self) -> str: ...


class _HasText(_HasJson, Protocol):
    def to_text(self) -> str: ...


class _Json:
    """An answer that the engine writes as JSON."""

    _inner: _HasJson

    def to_json(self) -> str:
        """As the command line's ``--format json`` writes it; docs/schema has the schemas."""
        return self._inner.to_json()

    def to_dict(self) -> Dict[str, Any]:
        """As the JSON has it."""
        return dict(json.loads(self.to_json()))


class _Written(_Json):
    """The same, and as text."""

    _inner: _HasText

    def to_text(self) -> str:
        """As the command line writes it."""
        return self._inner.to_text()

    def __str__(self) -> str:
        return self.to_text()


class LazyKernel(Kernel):
    """A kernel that is read when something of it is asked for."""

    __slots__ = ("_load", "_loaded")

    def __init__(self, report: "_ptxinspect.Report", unit: int, kernel: int) -> None:
        self._load = (report, unit, kernel)
        self._loaded: Optional[Dict[str, Any]] = None

    @property
    def _data(self) -> Dict[str, Any]:  # type: ignore[override]
        if self._loaded is None:
            report, unit, kernel = self._load
            self._loaded = json.loads(report.kernel(unit, kernel))
        return self._loaded

    def __reduce__(self) -> Any:
        return Kernel, (self._data,)

    @property
    def registers(self) -> Optional[int]:
        """Registers a thread."""
        return self.resources.registers

    @property
    def peak_live(self) -> Optional[int]:
        """Registers live at most."""
        return self.pressure.gpr.peak if self.pressure else None

    @property
    def findings(self) -> List[Finding]:
        """What checks of its barriers and register pool found."""
        return self.barriers.issues if self.barriers else []


class LazyUnit(Unit):
    """One input compiled or read for one architecture."""

    __slots__ = ("_kernels",)

    def __init__(self, report: "_ptxinspect.Report", unit: int) -> None:
        super().__init__(json.loads(report.unit(unit)))
        self._kernels = [LazyKernel(report, unit, at) for at in range(report.kernel_count(unit))]

    @property
    def kernels(self) -> List[LazyKernel]:  # type: ignore[override]
        """Entries and device functions, in the order the cubin has them."""
        return self._kernels

    def to_dict(self) -> Dict[str, Any]:
        return {**self._data, "kernels": [kernel.to_dict() for kernel in self._kernels]}

    def __reduce__(self) -> Any:
        return Unit, (self.to_dict(),)


class Report(_Written):
    """Where the registers of some kernels went."""

    _inner: "_ptxinspect.Report"

    def __init__(self, inner: "_ptxinspect.Report") -> None:
        self._inner = inner
        self._units: Optional[List[LazyUnit]] = None

    @property
    def units(self) -> List[LazyUnit]:
        """One for each input and architecture."""
        if self._units is None:
            self._units = [LazyUnit(self._inner, at) for at in range(self._inner.unit_count())]
        return self._units

    @property
    def kernels(self) -> List[LazyKernel]:
        """The kernels of all units."""
        return [kernel for unit in self.units for kernel in unit.kernels]

    def kernel(self, name: str) -> LazyKernel:
        """The kernel of this name, mangled or demangled."""
        for kernel in self.kernels:
            if name in (kernel.name, kernel.demangled):
                return kernel
        raise KeyError(name)

    @property
    def findings(self) -> List[Finding]:
        """What checks found, of all kernels."""
        return [finding for kernel in self.kernels for finding in kernel.findings]

    @property
    def advisories(self) -> List[Advisory]:
        """What ptxas warned of or remarked."""
        return [advisory for unit in self.units for advisory in unit.advisories]

    def denies(self, deny: Union[str, Sequence[str]], allow: Union[str, Sequence[str]] = ()) -> bool:
        """Whether something in it is denied: a code (``C7508``, ``PI203``), ``warnings`` or ``advisories``."""
        return self._inner.denies(_list(deny), _list(allow))

    def to_html(self) -> str:
        """A page to explore, in one file."""
        return self._inner.to_html()

    def rows(self) -> List[Dict[str, Any]]:
        """One flat record a kernel: ``pandas.DataFrame(report.rows())``."""
        return list(json.loads(self._inner.rows()))

    def __iter__(self) -> Iterator[LazyKernel]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return sum(self._inner.kernel_count(at) for at in range(self._inner.unit_count()))

    def __reduce__(self) -> Any:
        return _received, self._inner.sent()

    def __repr__(self) -> str:
        units = self._inner.unit_count()
        return f"<ptxinspect.Report: {len(self)} kernels in {units} unit{'' if units == 1 else 's'}>"

    def _repr_html_(self) -> str:
        return _frame(self.to_html(), 640)


def _received(json: str, text: str, name: str, data: Optional[bytes], asked: str) -> Report:
    """A report that another process made."""
    return Report(_ptxinspect.received(json, text, name, data, asked))


class Annotated:
    """Each line with the code it became."""

    def __init__(self, inner: "_ptxinspect.Annotated", only_functions: bool) -> None:
        self._inner = inner
        self._only_functions = only_functions

    def _shown(
        self,
        by: Literal["ptx", "source"],
        lines: Optional[Tuple[int, int]],
        only_hot: bool,
        control: bool,
        cycles: bool,
        width: Optional[int],
    ) -> str:
        if by not in ("ptx", "source"):
            raise ValueError(f"by={by!r}: expected 'ptx' or 'source'")
        return json.dumps(
            {
                "by_source": by == "source",
                "lines": lines,
                "only_hot": only_hot,
                "control": control,
                "cycles": cycles,
                "width": width,
                "only_functions": self._only_functions,
            }
        )

    def to_text(
        self,
        by: Literal["ptx", "source"] = "ptx",
        lines: Optional[Tuple[int, int]] = None,
        only_hot: bool = False,
        control: bool = False,
        width: Optional[int] = None,
        cycles: bool = False,
    ) -> str:
        """For people."""
        return self._inner.to_text(self._shown(by, lines, only_hot, control, cycles, width))

    def rows(
        self,
        by: Literal["ptx", "source"] = "ptx",
        lines: Optional[Tuple[int, int]] = None,
        only_hot: bool = False,
    ) -> List[Dict[str, Any]]:
        """One record a line: docs/schema/annotate-v1.schema.json."""
        text = self._inner.to_json(self._shown(by, lines, only_hot, False, False, None))
        return [json.loads(line) for line in text.splitlines()]

    def to_html(self) -> str:
        """A page to explore, in one file."""
        return self._inner.to_html()

    def to_svg(self) -> str:
        """The curve of live registers as a picture."""
        return self._inner.to_svg()

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return _frame(self.to_html(), 640)


class Listing(_Json):
    """SASS in its order, with live registers and PTX lines."""

    _inner: "_ptxinspect.Listing"

    def __init__(self, inner: "_ptxinspect.Listing") -> None:
        self._inner = inner

    @property
    def functions(self) -> List[View]:
        """The functions, each with its ``instructions``: docs/schema/disasm-v1.schema.json."""
        return [View(function) for function in self.to_dict()["functions"]]

    def to_text(self, control: bool = False, hex: bool = False) -> str:
        """For people."""
        return self._inner.to_text(control, hex)

    def __str__(self) -> str:
        return self.to_text()


class Difference(_Written):
    """Two builds side by side."""

    _inner: "_ptxinspect.Difference"

    def __init__(self, inner: "_ptxinspect.Difference") -> None:
        self._inner = inner

    def to_html(self) -> str:
        """A page in one file."""
        return self._inner.to_html()

    @property
    def kernels(self) -> List[View]:
        """What differs, kernel by kernel."""
        return [View(kernel) for unit in self.to_dict()["units"] for kernel in unit["kernels"]]

    def _repr_html_(self) -> str:
        return _frame(self.to_html(), 480)


class Timelines(_Written):
    """Executions of kernels' barriers: who waits for whom."""

    _inner: "_ptxinspect.Timelines"

    def __init__(self, inner: "_ptxinspect.Timelines") -> None:
        self._inner = inner

    @property
    def refused(self) -> List[Tuple[str, str]]:
        """Kernels that have none, and why."""
        return self._inner.refused()

    def to_svg(self) -> str:
        """A picture."""
        return self._inner.to_svg()

    def _repr_html_(self) -> str:
        return self.to_svg()


class KernelCosts(View):
    """What the loops of a kernel cost; docs/schema/cost-v1.schema.json has the rest."""

    name: str
    loops: List[LoopCost]
    accesses: Optional[AccessFacts]


class LoopCosts(_Written):
    """What loops cost: a static estimate."""

    _inner: "_ptxinspect.LoopCosts"

    def __init__(self, inner: "_ptxinspect.LoopCosts") -> None:
        self._inner = inner

    @property
    def kernels(self) -> List[KernelCosts]:
        """The kernels of all units: their ``loops``, ``hazards`` and ``accesses``."""
        return [KernelCosts(kernel) for unit in self.to_dict()["units"] for kernel in unit["kernels"]]


class Tuning(_Written):
    """What flags and edits give, tried."""

    _inner: "_ptxinspect.Tuning"

    def __init__(self, inner: "_ptxinspect.Tuning") -> None:
        self._inner = inner

    @property
    def kernels(self) -> List[Dict[str, Any]]:
        """One for each kernel, as the JSON has it: ``rows``, ``best``, ``why``, …"""
        return list(self.to_dict()["kernels"])

    def to_svg(self) -> str:
        """A picture."""
        return self._inner.to_svg()

    def to_html(self) -> str:
        """A page: the picture, the table with commands and patches, why."""
        return self._inner.to_html()

    def _repr_html_(self) -> str:
        return self.to_svg()


class OccupancyAnswer(View):
    """How many blocks an SM holds, and how far the next step and the next cliff are."""

    blocks_per_sm: int
    warps_per_sm: int
    max_warps_per_sm: int
    occupancy: float
    limiter: str
    limiters: List[str]
    limits: Dict[str, Any]
    min_sms_per_cluster: Optional[int]
    allocated_registers: int
    allocated_smem: int
    obstacles: List[Any]
    next_step: Optional[Dict[str, Any]]
    cliff: Optional[Dict[str, Any]]
    next_step_smem: Optional[Dict[str, Any]]
    cliff_smem: Optional[Dict[str, Any]]
    next_step_together: Optional[Dict[str, Any]]


class Verdict(_Written):
    """What a gate says."""

    _inner: "_ptxinspect.Verdict"

    def __init__(self, inner: "_ptxinspect.Verdict") -> None:
        self._inner = inner

    @property
    def outcome(self) -> Literal["pass", "fail", "error"]:
        """How it ends."""
        outcome: Literal["pass", "fail", "error"] = self.to_dict()["outcome"]
        return outcome

    @property
    def passed(self) -> bool:
        """Whether nothing got worse."""
        return self.outcome == "pass"

    @property
    def findings(self) -> List[View]:
        """What it complains of."""
        return [View(finding) for finding in self.to_dict()["findings"]]

    def __bool__(self) -> bool:
        return self.passed


def _list(value: Union[str, Sequence[str]]) -> List[str]:
    return [value] if isinstance(value, str) else list(value)
