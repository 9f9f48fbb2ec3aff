"""pc to PTX line and pc to source line: against `nvdisasm -gp -gi`."""

import re
import tempfile
from collections import Counter
from pathlib import Path

from .tools import Inputs, Ran, Tally, parsed

FRAME = re.compile(r'//## File "(.*?)", line (\d+)( inlined at "(.*?)", line (\d+))?')
SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+\S")


class Carried(list):
    """The chain printed last in the function before."""


def nvdisasm_lines(text):
    """{(section, pc): (PTX line, [(file, line), ...] innermost first, chain printed here)}; a line lasts until the next.

    nvdisasm prints nothing when file and line stay the same, even where the inlining behind them changed: `chain printed
    here` is false there, and only the innermost line can be compared. It does so over the start of a function too: the
    chain is then a Carried one, which may hold there or not."""
    at, section, ptx, source, pending = {}, None, None, None, []
    for line in text.splitlines():
        if m := SECTION.match(line):
            section, ptx, source, pending = m[1], None, Carried(source or []), []
        elif m := FRAME.search(line):
            pending.append((m[1], int(m[2])))
        elif m := INSTRUCTION.match(line):
            chain = [frame for frame in pending if not frame[0].startswith(".nv_debug_ptx_txt")]
            for name, number in pending:
                if name.startswith(".nv_debug_ptx_txt"):
                    ptx = number
            if chain:
                source = chain
            pending = []
            at[section, int(m[1], 16)] = (ptx, source, bool(chain))
    return at


def our_lines(report):
    at = {}
    for function in report["functions"]:
        section = ".text." + (function["kernel"] or function["name"])
        for inst in function["instructions"]:
            source = inst["source"]
            if source is not None:
                source = [(f["file"], f["line"]) for f in [source, *(source.get("inlined_at") or [])]]
            at[section, inst["pc"]] = (inst["ptx_line"], source)
    return at


def compare(args, tools):
    tally, done = Tally("lines"), 0
    inputs = Inputs(args, (".ptx", ".cubin"))
    with tempfile.TemporaryDirectory() as scratch:
        for path in inputs.files:
            cubin = path
            if path.suffix == ".ptx":
                cubin = Path(scratch) / "out.cubin"
                if tools.ptxas_once(path, inputs.arch(path), cubin).code != 0:
                    continue
            oracle = Ran([tools.path("nvdisasm"), "-c", "-ndf", "-gp", "-gi", str(cubin)], args.timeout)
            if oracle.code != 0:
                continue
            done += 1
            report = parsed(tools.ours("disasm", cubin, "--format", "json"), path, tally)
            if report is None:
                continue
            theirs, ours = nvdisasm_lines(oracle.out.decode(errors="replace")), our_lines(report)
            tally.check("instructions", path, "count", len(theirs), len(ours))
            shown = Counter()
            for place in sorted(theirs.keys() & ours.keys()):
                (ptx, source, printed), (our_ptx, our_source) = theirs[place], ours[place]
                if isinstance(source, Carried):
                    source = source if our_source and source else None
                if source and our_source and not printed:
                    source, our_source = source[:1], our_source[:1]
                for kind, expected, got in (("ptx line", ptx, our_ptx), ("source line", source, our_source)):
                    if expected == got:
                        tally.same(kind)
                    elif (shown := shown + Counter([kind]))[kind] <= 3:
                        tally.differ(kind, path, f"{place[0]}+{place[1]:#x}: expected {expected}, got {got}")
                    else:
                        tally.compared[kind] += 1
                        tally.wrong[kind] += 1
    return tally.finish(done)
