"""What a function uses: against `ptxas -v` for PTX, against `cuobjdump -res-usage` for cubins."""

import re
import tempfile
from collections import defaultdict
from pathlib import Path

from .tools import Inputs, Ran, Tally, parsed

FIELDS = ("registers", "barriers", "smem_bytes", "cmem_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
RESERVED_SMEM = 1024


def ptxas_resources(log):
    """([entry records], {function: [frame records]}) of a `ptxas -v` log."""
    entries, frames, current, entry = {}, defaultdict(list), None, None
    for line in log.splitlines():
        # ptxas info    : Compiling entry function 'k' for 'sm_90'
        if m := re.search(r"Compiling entry function '(.*)' for '", line):
            entry = current = m[1]
            entries[entry] = {}
        # ptxas info    : Function properties for k
        elif m := re.search(r"Function properties for '?([^']*)'?$", line):
            current = m[1].strip()
        # 56 bytes stack frame, 56 bytes spill stores, 56 bytes spill loads
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            frame = dict(zip(FIELDS[4:], map(int, m.groups())))
            if current == entry:
                entries[entry].update(frame)
            else:
                frames[current].append(tuple(frame.values()))
        # ptxas info    : Used 47 registers, used 1 barriers, 2048 bytes smem, 364 bytes cmem[0], 8 bytes cmem[2]
        elif (m := re.search(r"Used (\d+) registers", line)) and entry is not None and current == entry:
            record = entries[entry]
            record["registers"] = int(m[1])
            if b := re.search(r"used (\d+) barriers", line):
                record["barriers"] = int(b[1])
            record["smem_bytes"] = sum(int(n) for n in re.findall(r"(\d+) bytes smem", line))
            banks = re.findall(r"(\d+) bytes cmem\[", line)
            if banks:
                record["cmem_bytes"] = sum(map(int, banks))
    return entries, frames


def compare_ptx_resources(tools, tally, path, arch, scratch):
    oracle = tools.ptxas_once(path, arch, scratch / "out.cubin")
    if oracle.code != 0:
        return False
    report = parsed(tools.ours_on_ptx([], path, arch), path, tally)
    if report is None:
        return True
    for unit in report["units"]:
        # a file that ptxas accepts leaves nothing that was not understood, neither in the PTX nor in the log
        for kind, field in (("problems", "problems"), ("unparsed log", "unparsed_log")):
            tally.check(kind, path, unit["arch"], [], unit[field])
    entries, frames = ptxas_resources(oracle.err.decode(errors="replace"))
    kernels = [k for unit in report["units"] for k in unit["kernels"]]
    ours = {k["name"]: k["resources"] for k in kernels if k["kind"] == "entry"}
    tally.check("entries", path, "names", sorted(entries), sorted(ours))
    for name in sorted(entries.keys() & ours.keys()):
        for field in FIELDS:
            if field in entries[name]:
                tally.check(field, path, name, entries[name][field], ours[name][field])
    our_frames = defaultdict(list)
    for k in kernels:
        if k["kind"] == "func":
            our_frames[k["name"]].append(tuple(k["resources"][f] for f in FIELDS[4:]))
    for name in sorted(frames):
        tally.check("func frame", path, name, sorted(set(frames[name])), sorted(set(our_frames.get(name, [])), key=str))
    return True


def compare_cubin_resources(tools, tally, path):
    oracle = Ran([tools.path("cuobjdump"), "-res-usage", str(path)], tools.args.timeout)
    if oracle.code != 0:
        return False
    report = parsed(tools.ours(path, "--format", "json"), path, tally)
    if report is None:
        return True
    kernels = [k for unit in report["units"] for k in unit["kernels"]]
    # for functions that are no entries cuobjdump shows zeros where the cubin's attributes have numbers
    ours = {k["name"]: k["resources"] for k in kernels if k["kind"] == "entry"}
    funcs = {k["name"] for k in kernels if k["kind"] != "entry"}
    relocatable = any(unit["cubin"] and unit["cubin"]["relocatable"] for unit in report["units"])
    name = None
    for line in oracle.out.decode(errors="replace").splitlines():
        # Function _Z4sortPii:
        if m := re.match(r"\s*Function (.*):$", line):
            name = m[1]
        # REG:32 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:540 TEXTURE:0 SURFACE:0 SAMPLER:0
        elif m := re.match(r"\s*REG:(\d+) STACK:(\d+|UNKNOWN) SHARED:(\d+) LOCAL:(\d+)(.*)", line):
            mine = ours.get(name)
            if mine is None:
                if name not in funcs:
                    tally.differ("functions", path, f"{name}: missing")
                continue
            tally.check("registers", path, name, int(m[1]), mine["registers"])
            if m[2] != "UNKNOWN" and not relocatable:  # cuobjdump shows 0 before linking
                tally.check("stack (cuobjdump)", path, name, int(m[2]), mine["stack_bytes"])
            # cuobjdump counts what the system reserves in each block on sm_90 and later, ptxas -v does not
            reserved = RESERVED_SMEM if int(m[3]) - (mine["smem_bytes"] or 0) == RESERVED_SMEM else 0
            tally.check("smem_bytes", path, name, int(m[3]) - reserved, mine["smem_bytes"])
            tally.check("local_bytes", path, name, int(m[4]), mine["local_bytes"] or 0)
            banks = sum(int(n) for n in re.findall(r"CONSTANT\[\d+\]:(\d+)", m[5]))
            tally.check("cmem (cuobjdump)", path, name, banks, mine["cmem_bytes"])
    return True


def compare(args, tools):
    tally, done, skipped = Tally("resources"), 0, 0
    inputs = Inputs(args, (".ptx", ".cubin"))
    with tempfile.TemporaryDirectory() as scratch:
        for path in inputs.files:
            if path.suffix == ".ptx":
                ok = compare_ptx_resources(tools, tally, path, inputs.arch(path), Path(scratch))
            else:
                ok = compare_cubin_resources(tools, tally, path)
            done, skipped = done + ok, skipped + (not ok)
    print(f"\n{skipped} files the oracle itself rejects were passed over")
    return tally.finish(done)
