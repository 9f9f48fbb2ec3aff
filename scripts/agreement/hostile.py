"""Input that is cut, corrupted or senseless, and a ptxas that misbehaves."""

import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

from .tools import Inputs, Tally


def section_table(data):
    """[(offset of the header, header fields)] of a 64-bit little-endian ELF."""
    offset, = struct.unpack_from("<Q", data, 40)
    entry, count = struct.unpack_from("<HH", data, 58)
    return [(offset + i * entry, struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry)) for i in range(count)]


def corruptions(data):
    """(what, bytes): one wrong number each, in the ELF header, section headers, symbols and attribute records."""
    def put(what, fmt, offset, value):
        changed = bytearray(data)
        struct.pack_into(fmt, changed, offset, value)
        return what, bytes(changed)

    for what, fmt, offset in (("e_phoff", "<Q", 32), ("e_shoff", "<Q", 40), ("e_shentsize", "<H", 58), ("e_shnum", "<H", 60),
                              ("e_shstrndx", "<H", 62), ("e_phnum", "<H", 56), ("e_machine", "<H", 18), ("e_flags", "<I", 48)):
        for value in (0, 1, (1 << 8 * struct.calcsize(fmt)) - 1):
            yield put(f"{what}={value:#x}", fmt, offset, value)
    for index, (at, header) in enumerate(section_table(data)):
        for field, fmt, offset in (("name", "<I", 0), ("type", "<I", 4), ("offset", "<Q", 24), ("size", "<Q", 32),
                                   ("link", "<I", 40), ("info", "<I", 44), ("entsize", "<Q", 56)):
            top = (1 << 8 * struct.calcsize(fmt)) - 1
            values = (top, len(data) - 1, 1 << 31) if field in ("offset", "size") else (top,)
            for value in values:
                yield put(f"section {index} {field}={value:#x}", fmt, at + offset, value)
        start, size = header[4], header[5]
        if header[1] == 2:  # symbols
            for i in range(min(size // 24, 12)):
                yield put(f"symbol {i} value", "<Q", start + i * 24 + 8, 1 << 63)
                yield put(f"symbol {i} size", "<Q", start + i * 24 + 16, (1 << 64) - 1)
                yield put(f"symbol {i} name", "<I", start + i * 24, 0xFFFFFFFF)
        elif header[1] != 8 and 4 <= size <= 4096:  # small sections hold records with lengths: each 16 bits in turn
            for offset in range(start, min(start + size - 1, start + 160), 2):
                yield put(f"section {index} +{offset - start:#x}", "<H", offset, 0xFFFF)


STAND_INS = {
    "exits 3 in silence": "#!/bin/sh\nexit 3\n",
    "crashes": "#!/bin/sh\nkill -SEGV $$\n",
    "hangs": "#!/bin/sh\nsleep 600\n",
    "hangs with a child": "#!/bin/sh\nsleep 600 &\nwait\n",
    "succeeds without a cubin": "#!/bin/sh\nexit 0\n",
    "prints rubbish and fails": "#!/bin/sh\nhead -c 4096 /dev/urandom >&2\nexit 1\n",
    "prints rubbish for ever": "#!/bin/sh\nyes 'ptxas rubbish' >&2\n",
    "writes a cubin of rubbish": "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && head -c 4096 /dev/urandom > \"$2\"; shift; done\n",
    "writes an empty cubin": "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && : > \"$2\"; shift; done\n",
}


class Hostile:
    def __init__(self, args, tools, work):
        self.tools, self.work, self.tally = tools, work, Tally("hostile")
        self.tmp = work / "tmp"
        self.tmp.mkdir()
        self.env = {**os.environ, "TMPDIR": str(self.tmp)}
        self.limit = args.timeout
        self.ran = 0

    def expect(self, what, command, codes, timeout=20, stdin=None, env=None):
        ran = self.tools.ours(*command, env=env or self.env, timeout=timeout, stdin=stdin)
        self.ran += 1
        said = ran.err.decode(errors="replace").strip()
        if ran.crashed():
            self.tally.differ("crash", what, f"exit {ran.code}{', hung' if ran.hung else ''}: {said[:300]}")
        elif ran.code not in codes:
            self.tally.differ("exit", what, f"expected {' or '.join(map(str, codes))}, got {ran.code}: {said[:200]}")
        elif ran.code == 2 and not said:
            self.tally.differ("message", what, "exit 2 without a word")
        else:
            self.tally.same("handled")
        left = sorted(p.name for p in self.tmp.iterdir())
        if left:
            self.tally.differ("left behind", what, ", ".join(left[:5]))
            for p in self.tmp.iterdir():
                shutil.rmtree(p) if p.is_dir() else p.unlink()

    def bad_inputs(self, suffix, extra):
        cases = {"empty": b"", "newline": b"\n", "binary": bytes(range(256)) * 40, "zeros": bytes(5000), "wrong magic": b"\x7fELG" + bytes(600),
                 "an ELF of another machine": Path(sys.executable).resolve().read_bytes()[:200_000], "a script": b"#!/bin/sh\nexit\n"}
        for what, data in cases.items():
            file = self.work / f"bad{suffix}"
            file.write_bytes(data)
            self.expect(f"{what} as {suffix}", [file, *extra], (2,))
        self.expect(f"a missing {suffix}", [self.work / f"missing{suffix}", *extra], (2,))
        folder = self.work / f"folder{suffix}"
        folder.mkdir()
        self.expect(f"a folder {suffix}", [folder, *extra], (2,))

    def ptx(self, path, arch):
        extra = ["--arch", arch, "--ptxas", self.tools.path("ptxas")]
        self.bad_inputs(".ptx", extra)
        data, file = path.read_bytes(), self.work / "cut.ptx"
        for size in range(0, len(data), 1024):
            file.write_bytes(data[:size])
            accepted = self.tools.ptxas(file, arch, self.work / "cut.cubin").code == 0
            self.expect(f"{path.name} cut at {size}", [file, *extra], (0 if accepted else 2,))
        self.expect("stdin, empty", ["-", *extra], (2,), stdin=b"")
        self.expect("stdin, binary", ["-", *extra], (2,), stdin=bytes(range(256)))
        self.expect("an unknown architecture", [path, "--arch", "sm_9999", "--ptxas", self.tools.path("ptxas")], (2,))
        self.stand_ins(path, arch)

    def stand_ins(self, path, arch):
        folder = self.work / "ptxas-folder"
        folder.mkdir(exist_ok=True)
        plain = self.work / "ptxas-plain"
        plain.write_text("#!/bin/sh\nexit 0\n")
        rubbish = self.work / "ptxas-rubbish"
        rubbish.write_bytes(bytes(range(256)) * 16)
        rubbish.chmod(0o755)
        for what, ptxas in (("a folder", folder), ("not executable", plain), ("no program", rubbish), ("missing", self.work / "none")):
            self.expect(f"ptxas is {what}", [path, "--arch", arch, "--ptxas", ptxas], (2,))
        for what, script in STAND_INS.items():
            ptxas = self.work / "ptxas"
            ptxas.write_text(script)
            ptxas.chmod(0o755)
            self.expect(f"ptxas {what}", [path, "--arch", arch, "--ptxas", ptxas, "--timeout", "2"], (2,))
        full = {**self.env, "TMPDIR": "/nonexistent-folder"}
        self.expect("TMPDIR does not exist", [path, "--arch", arch, "--ptxas", self.tools.path("ptxas")], (0, 2), env=full)

    def cubin(self, path):
        self.bad_inputs(".cubin", [])
        data, file = path.read_bytes(), self.work / "cut.cubin"
        for size in range(0, len(data), 1024):
            file.write_bytes(data[:size])
            for command in ([file], ["disasm", file]):
                self.expect(f"{path.name} cut at {size} {command[0] if command[0] == 'disasm' else ''}", command, (2,))
        for what, changed in corruptions(data):
            file.write_bytes(changed)
            self.expect(f"{path.name}: {what}", [file, "--format", "json"], (0, 1, 2))


def compare(args, tools):
    with tempfile.TemporaryDirectory() as work:
        bench = Hostile(args, tools, Path(work))
        inputs = Inputs(args, (".ptx", ".cubin"))
        for path in inputs.files:
            for name in ("folder.ptx", "folder.cubin"):
                shutil.rmtree(Path(work) / name, ignore_errors=True)
            if path.suffix == ".ptx":
                bench.ptx(path, inputs.arch(path))
            else:
                bench.cubin(path)
        return bench.tally.finish(bench.ran)
