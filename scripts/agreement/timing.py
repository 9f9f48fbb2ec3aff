"""Wall time over bare ptxas, and peak memory."""

import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from .tools import Inputs, Tally


def own_peak(command, timeout):
    """Peak resident bytes of the process itself, without its children: VmHWM, looked at until it ends."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, started = 0, time.monotonic()
    while child.poll() is None and time.monotonic() - started < timeout:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        if m := re.search(r"VmHWM:\s+(\d+) kB", status):
            peak = max(peak, int(m[1]) * 1024)
        time.sleep(0.001)
    child.wait()
    return peak


def compare(args, tools):
    tally, inputs = Tally("time"), Inputs(args, (".ptx",))
    rows = []
    print(f"{'bytes':>10} {'ptxas ms':>10} {'ours ms':>10} {'over ms':>9} {'over %':>8} {'own MB':>8} {'of in+cubin':>11}  file")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.cubin"
        for path in inputs.files:
            arch = inputs.arch(path)
            if tools.ptxas(path, arch, out).code != 0:
                continue
            bare, mine = [], []
            for _ in range(args.runs):  # taken in turns, so that other load falls on both
                bare.append(tools.ptxas(path, arch, out).seconds)
                mine.append(tools.ours_on_ptx([], path, arch).seconds)
            command = [tools.ptxinspect, str(path), "--arch", arch, "--ptxas", tools.path("ptxas"), "--format", "json"]
            peak = own_peak(command, args.timeout)
            size = path.stat().st_size + out.stat().st_size
            b, m = statistics.median(bare), statistics.median(mine)
            over = m - b
            print(f"{path.stat().st_size:>10} {b * 1e3:>10.1f} {m * 1e3:>10.1f} {over * 1e3:>9.1f} {over / b * 100:>8.1f} "
                  f"{peak / 1e6:>8.1f} {peak / size:>11.1f}  {path}", flush=True)
            rows.append((b, m))
            if over > max(0.03 * b, 0.010):
                tally.differ("time", path, f"{over * 1e3:.1f} ms over ptxas, {max(0.03 * b, 0.010) * 1e3:.1f} allowed")
            else:
                tally.same("time")
            # a process has some megabytes before it reads anything
            if peak > 6 * size + (12 << 20):
                tally.differ("memory", path, f"{peak / 1e6:.1f} MB for {size / 1e6:.1f} MB of input and cubin")
            else:
                tally.same("memory")
    if rows:
        print(f"\nall together: ptxas {sum(b for b, _ in rows):.2f} s, ptxinspect {sum(m for _, m in rows):.2f} s")
    return tally.finish(len(rows))
