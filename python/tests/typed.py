"""What a type checker sees of the package: `mypy --strict` takes it."""

import concurrent.futures
from typing import List, Optional

import ptxinspect
import ptxinspect.triton


def spilling(folder: str) -> List[str]:
    table: ptxinspect.triton.Table = ptxinspect.triton.cache(folder)
    return [entry.name for entry in table if entry.spills]


def worst(path: str) -> Optional[str]:
    report = ptxinspect.inspect(path, arch="sm_90a", ptxas="13.4", threads=128)
    registers: List[Optional[int]] = [kernel.registers for kernel in report]
    spilling = [kernel.name for kernel in report.kernels if kernel.resources.spill_store_bytes]
    for finding in report.findings:
        line: Optional[int] = finding.ptx_line
        print(finding.code, finding.severity, line, finding.message, registers)
    blocks: int = ptxinspect.occupancy("sm_90a", registers=168, threads=384).blocks_per_sm
    print(blocks, ptxinspect.timeline(path).to_svg())
    print([kernel["best"] for kernel in ptxinspect.tune(path, ptxas=["12.9", "13.4"], budget=40).kernels])
    return spilling[0] if spilling else None


def many(paths: List[str]) -> List[int]:
    with concurrent.futures.ThreadPoolExecutor() as executor:
        return [len(report) for report in ptxinspect.map(paths, executor, arch="sm_90a", cache=False)]


try:
    worst("kernel.ptx")
except ptxinspect.PtxasError as error:
    print([diagnostic.ptx_line for diagnostic in error.diagnostics])
