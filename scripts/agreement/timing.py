"""Wall time over bare ptxas, and peak memory.

On a busy machine (--cpu) what counts is the processor time of ptxinspect itself, all threads together, against that of bare
ptxas. It is more than what a user waits for: PTX is parsed while ptxas runs, and functions are joined in parallel.

What ptxas takes varies by more than what is to be measured. --waiting puts a script in ptxas's place that notes when it is started and when
it ends: what is waited for is the time before and the time after, less what the script alone takes for them, run as it is on a file that ptxas
refuses at once."""

import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from .tools import Inputs, Tally


def own_use(command, timeout):
    """(peak resident bytes, those that no other process shares, processor seconds) of the process itself, without its children, looked at
    until it ends."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, private, seconds, started = 0, 0, 0.0, time.monotonic()
    while child.poll() is None and time.monotonic() - started < timeout:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
            fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        if m := re.search(r"VmHWM:\s+(\d+) kB", status):
            peak = max(peak, int(m[1]) * 1024)
        if m := re.search(r"RssAnon:\s+(\d+) kB", status):
            private = max(private, int(m[1]) * 1024)
        seconds = max(seconds, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
        time.sleep(0.001)
    child.wait()
    return peak, private, seconds


def spent(run):
    """(wall seconds, processor seconds) of a run, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ran.seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


SCRIPT = """#!/bin/sh
case "$*" in *--version*) exec {ptxas} "$@";; esac
date +%s%N > {folder}/start
{ptxas} "$@"
status=$?
date +%s%N > {folder}/end
exit $status
"""


def waiting(args, tools):
    """What is waited for beside ptxas: the best of the runs."""
    tally, inputs = Tally("time"), Inputs(args, (".ptx",))
    print(f"{'bytes':>10} {'ptxas ms':>10} {'before ms':>10} {'after ms':>9} {'%':>6}  file")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        script = folder / "ptxas"
        script.write_text(SCRIPT.format(ptxas=tools.path("ptxas"), folder=folder))
        script.chmod(0o755)

        def noted(run):
            """Nanoseconds around what the script notes: both, before, after, between; none where the run fails."""
            begun = time.time_ns()
            code = run()
            ended = time.time_ns()
            start, end = (int((folder / name).read_text()) for name in ("start", "end"))
            return ((start - begun) + (ended - end), start - begun, ended - end, end - start) if code == 0 else None

        def alone():
            subprocess.run([script, folder / "none"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            return 0

        for path in inputs.files:
            runs, own = [], []
            for _ in range(args.runs):
                own.append(noted(alone))
                run = noted(lambda: tools.ours(path, "--arch", inputs.arch(path), "--ptxas", script).code)
                if run is None:
                    break
                runs.append(run)
            if not runs:
                continue
            _, before, after, theirs = min(runs)
            _, own_before, own_after, _ = min(own)
            before, after = before - own_before, after - own_after
            more = before + after
            print(f"{path.stat().st_size:>10} {theirs / 1e6:>10.1f} {before / 1e6:>10.1f} {after / 1e6:>9.1f} {more / theirs * 100:>6.1f}  {path}", flush=True)
            allowed = max(0.03 * theirs, 10e6)
            if more > allowed:
                tally.differ("time", path, f"{more / 1e6:.1f} ms beside ptxas, {allowed / 1e6:.1f} allowed")
            else:
                tally.same("time")
    return tally.finish(tally.compared["time"])


def compare(args, tools):
    if args.waiting:
        return waiting(args, tools)
    tally, inputs = Tally("time"), Inputs(args, (".ptx",))
    kind = 1 if args.cpu else 0
    totals = [0.0, 0.0]
    print(f"{'bytes':>10} {'ptxas ms':>10} {'wall +ms':>9} {'wall %':>7} {'cpu +ms':>9} {'own ms':>7} {'own %':>6} {'own MB':>8} {'x in+cubin':>10} {'private':>8}  file")
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
            uses = [own_use(command, args.timeout) for _ in range(args.runs)]
            peak, private, own = max(use[0] for use in uses), max(use[1] for use in uses), statistics.median(use[2] for use in uses)
            size = path.stat().st_size + out.stat().st_size
            print(f"{path.stat().st_size:>10} {theirs[0] * 1e3:>10.1f} {over[0] * 1e3:>9.1f} {over[0] / theirs[0] * 100:>7.1f} "
                  f"{over[1] * 1e3:>9.1f} {own * 1e3:>7.0f} {own / theirs[1] * 100:>6.1f} {peak / 1e6:>8.1f} {peak / size:>10.1f} {private / size:>8.1f}  {path}", flush=True)
            more = own if args.cpu else over[0]
            totals = [totals[0] + theirs[kind], totals[1] + more]
            allowed = max(0.03 * theirs[kind], 0.010)
            if more > allowed:
                tally.differ("time", path, f"{more * 1e3:.1f} ms over ptxas, {allowed * 1e3:.1f} allowed")
            else:
                tally.same("time")
            # a process has some megabytes before it reads anything
            if peak > 6 * size + (12 << 20):
                tally.differ("memory", path, f"{peak / 1e6:.1f} MB for {size / 1e6:.1f} MB of input and cubin")
            else:
                tally.same("memory")
    print(f"\nall together: ptxas {totals[0]:.2f} s, ptxinspect {totals[1]:.2f} s more")
    return tally.finish(tally.compared["time"])
