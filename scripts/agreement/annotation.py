"""`ptxinspect annotate`: every instruction once and under the line of `nvdisasm -gp`; `--format ptx` compiles to the same code."""

import json
import struct
import tempfile
from pathlib import Path

from .lines import nvdisasm_lines
from .tools import Inputs, Ran, Tally


def code_of(cubin):
    """{section name: bytes} of the code sections of an ELF64 file."""
    data = cubin.read_bytes()
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    text = data[headers[names][4]:][: headers[names][5]]
    found = {}
    for name, kind, _, _, start, length, *_ in headers:
        name = text[name: text.index(b"\0", name)].decode(errors="replace")
        if kind != 8 and (name == ".text" or name.startswith(".text.")):
            found[name] = data[start: start + length]
    return found


def placed_lines(text):
    """{(section, pc): (own PTX line, line it stands under)} and how many instructions stood there twice."""
    at, twice = {}, 0
    for line in text.splitlines():
        record = json.loads(line)
        for inst in record.get("instructions", []) if record["record"] == "line" else []:
            place = (".text." + inst["kernel"], inst["pc"])
            twice += place in at
            at[place] = (inst["ptx_line"], record["line"])
    return at, twice


def compare(args, tools):
    tally, done = Tally("annotate"), 0
    inputs = Inputs(args, (".ptx",))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        for path in inputs.files:
            arch, cubin = inputs.arch(path), scratch / "out.cubin"
            if tools.ptxas_once(path, arch, cubin).code != 0:
                continue
            oracle = Ran([tools.path("nvdisasm"), "-c", "-ndf", "-gp", str(cubin)], args.timeout)
            if oracle.code != 0:
                continue
            done += 1
            ran = tools.ours_on_ptx(["annotate"], path, arch)
            if ran.crashed() or ran.code != 0:
                tally.differ("fails", path, f"exit {ran.code}: {ran.err.decode(errors='replace')[:200]}")
                continue
            ours, twice = placed_lines(ran.out.decode())
            tally.check("shown twice", path, "instructions", 0, twice)
            theirs = {place: rest[0] for place, rest in nvdisasm_lines(oracle.out.decode(errors="replace")).items()}
            tally.check("shown at all", path, "instructions", len(theirs), len(ours))
            renumbered = b"#line" in path.read_bytes()
            for place in theirs.keys() & ours.keys():
                expected, (own, under) = theirs[place], ours[place]
                if renumbered:
                    continue
                if expected == own and (own is None or own == under):
                    tally.same("line")
                else:
                    tally.differ("line", path, f"{place[0]}+{place[1]:#x}: expected {expected}, got {own} under {under}")
            compiles_alike(args, tools, path, arch, cubin, scratch, tally)
    return tally.finish(done)


def compiles_alike(args, tools, path, arch, cubin, scratch, tally):
    """The annotated PTX gives the code of the plain one, and without line tables the very same file."""
    again = scratch / "again"
    again.mkdir(exist_ok=True)
    ran = tools.ours("annotate", path, "--arch", arch, "--ptxas", tools.path("ptxas"), "--format", "ptx", "-o",
                     again / path.name)
    tally.check("ptx written", path, "exit", 0, ran.code)
    annotated = tools.ptxas(again / path.name, arch, again / "out.cubin")
    if annotated.code != 0:
        tally.differ("ptx accepted", path, annotated.err.decode(errors="replace")[:200])
        return
    tally.same("ptx accepted")
    ours, plain = code_of(again / "out.cubin"), [code_of(cubin)]
    # ptxas does not give every file the same code twice: then any of its answers will do.
    while ours not in plain and len(plain) < 6:
        tools.ptxas(path, arch, again / "plain.cubin")
        plain.append(code_of(again / "plain.cubin"))
    if ours not in plain and any(code != plain[0] for code in plain):
        tally.same("code bytes, where ptxas makes something else each time")
    else:
        tally.check("code bytes", path, "equal", True, ours in plain)
