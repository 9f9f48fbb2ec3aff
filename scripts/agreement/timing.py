"""Wall time over bare ptxas, and peak memory."""

import re
import resource
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


def spent(run):
    """(wall seconds, processor seconds) of a run, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ran.seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(args, tools):
    tally, inputs = Tally("time"), Inputs(args, (".ptx",))
    kind = 1 if args.cpu else 0
    totals = [0.0, 0.0]
    print(f"{'bytes':>10} {'ptxas ms':>10} {'wall +ms':>9} {'wall %':>7} {'cpu +ms':>9} {'cpu %':>7} {'own MB':>8} {'x in+cubin':>10}  file")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out.cubin"
        for path in inputs.files:
            arch = inputs.arch(path)
            if tools.ptxas(path, arch, out).code != 0:
                continue
            bare, mine = [], []
            for _ in range(args.runs):  # taken in turns, so that other load falls on both
                bare.append(spent(lambda: tools.ptxas(path, arch, out)))
                mine.append(spent(lambda: tools.ours_on_ptx([], path, arch)))
            theirs = [statistics.median(run[i] for run in bare) for i in (0, 1)]
            over = [statistics.median(run[i] for run in mine) - theirs[i] for i in (0, 1)]
            command = [tools.ptxinspect, str(path), "--arch", arch, "--ptxas", tools.path("ptxas"), "--format", "json"]
            peak = own_peak(command, args.timeout)
            size = path.stat().st_size + out.stat().st_size
            print(f"{path.stat().st_size:>10} {theirs[0] * 1e3:>10.1f} {over[0] * 1e3:>9.1f} {over[0] / theirs[0] * 100:>7.1f} "
                  f"{over[1] * 1e3:>9.1f} {over[1] / theirs[1] * 100:>7.1f} {peak / 1e6:>8.1f} {peak / size:>10.1f}  {path}", flush=True)
            totals = [totals[0] + theirs[kind], totals[1] + over[kind]]
            allowed = max(0.03 * theirs[kind], 0.010)
            if over[kind] > allowed:
                tally.differ("time", path, f"{over[kind] * 1e3:.1f} ms over ptxas, {allowed * 1e3:.1f} allowed")
            else:
                tally.same("time")
            # a process has some megabytes before it reads anything
            if peak > 6 * size + (12 << 20):
                tally.differ("memory", path, f"{peak / 1e6:.1f} MB for {size / 1e6:.1f} MB of input and cubin")
            else:
                tally.same("memory")
    print(f"\nall together: ptxas {totals[0]:.2f} s, ptxinspect {totals[1]:.2f} s more")
    return tally.finish(tally.compared["time"])
