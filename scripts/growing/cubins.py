"""Cubins that grow: branches, loops, functions, symbols, records, line tables."""
import struct

from .row import Row

EXIT = (0x000000000000794D, 0x000FEA0003800000)
NOP = (0x0000000000007918, 0x000FC00000000000)


def words(code):
    return b"".join(struct.pack("<QQ", low, high) for low, high in code)


def branch(at, to, predicate=7):
    """BRA of sm_80: instruction `at` to instruction `to`."""
    offset = (to - at - 1) * 16
    value = (offset & ((1 << 50) - 1)) << 32 | 0x0947 | predicate << 12
    return (value & (1 << 64) - 1, 0x000FC00003800000 | value >> 64)


def move(register, source):
    """MOV register, source."""
    return (0x0000000000007202 | register << 16 | source << 32, 0x000FE20000000F00)


def cubin(functions, sections=(), symbols=(), sm=80):
    """An ELF of kernels (name, code), of other sections (name, kind, flags, link, info, data) and of more symbols."""
    names, strings = bytearray(b"\0"), bytearray(b"\0")
    known = {}

    def name_in(table, name):
        if (id(table), name) not in known:
            known[id(table), name] = len(table)
            table += name.encode() + b"\0"
        return known[id(table), name]

    all_sections = [("", 0, 0, 0, 0, b"")]
    all_sections.append((".shstrtab", 3, 0, 0, 0, names))
    all_sections.append((".strtab", 3, 0, 0, 0, strings))
    first_code = 4
    table = bytearray(24)
    for at, (name, code) in enumerate(functions):
        table += struct.pack("<IBBHQQ", name_in(strings, name), 0x12, 0x10, min(first_code + at, 0xFEFF), 0, len(code))
    for name, info, other, section, value, size in symbols:
        table += struct.pack("<IBBHQQ", name_in(strings, name), info, other, section, value, size)
    all_sections.append((".symtab", 2, 0, 2, 1, table))
    for at, (name, code) in enumerate(functions):
        all_sections.append((f".text.{name}", 1, 6, 3, at + 1 | 32 << 24, code))
    all_sections += list(sections)
    for section in all_sections:
        name_in(names, section[0]) if section[0] else 0
    body, headers = bytearray(64), bytearray()
    for name, kind, flags, link, info, data in all_sections:
        while len(body) % 16:
            body.append(0)
        headers += struct.pack("<IIQQQQIIQQ", name_in(names, name) if name else 0, kind, flags, 0, len(body), len(data), link, info, 16, 24 if kind == 2 else 0)
        body += data
    while len(body) % 16:
        body.append(0)
    count = len(all_sections)
    header = b"\x7fELF\x02\x01\x01\x33\x07" + bytes(7)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 128, 0, 0, len(body), sm | sm << 16 | 0x500, 64, 56, 0, 64, count if count < 0xFF00 else 0, 1)
    body[:64] = header
    return bytes(body) + bytes(headers)


def kernel(code):
    return cubin([("k", words(code))])


def fixed_up(size, code_of):
    return kernel([code_of(at) for at in range(size)] + [EXIT])


def nested_loops(size):
    half = size // 2
    code = [NOP] * half
    code += [branch(half + at, half - 1 - at, 0) for at in range(half)]
    return kernel(code + [EXIT])


def many_functions(size):
    size = min(size, 60000)
    return cubin([(f"k{at}", words([move(1, 2), EXIT])) for at in range(size)])


def attributes(record):
    return lambda size: cubin([("k", words([EXIT]))], [(".nv.info.k", 0x70000000, 0x40, 3, 4, record(size))])


def indirect_table(size):
    # EIATTR_INDIRECT_BRANCH_TARGETS: one branch, all the targets.
    data = struct.pack("<IHHI", 0, 0, 0, min(size, 16000)) + b"".join(struct.pack("<I", 16 * at) for at in range(min(size, 16000)))
    return struct.pack("<BBH", 4, 0x34, len(data) & 0xFFFF) + data


def line_table(sequences, rows, name):
    """A DWARF 2 line program of sequences that each set the address and write rows."""
    program = bytearray()
    for _ in range(sequences):
        program += b"\0\x09\x02" + struct.pack("<Q", 0) + b"\x01" * rows + b"\0\x01\x01"
    tail = struct.pack("<BBbBB", 1, 1, -5, 14, 10) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1]) + b"\0" + b"a.ptx\0\0\0\0\0"
    header = struct.pack("<HI", 2, len(tail)) + tail
    unit = header + program
    return (name, 1, 0, 0, 0, struct.pack("<I", len(unit)) + bytes(unit))


def lines(sequences, rows):
    return lambda size: cubin([("k", words([NOP] * 100 + [EXIT]))], [line_table(sequences(size), rows(size), ".nv_debug_line_sass"), line_table(sequences(size), rows(size), ".debug_line")])


def parts(size):
    code = words([NOP] * size + [EXIT])
    return cubin([("k", code)], symbols=[(f"$k$f{at}", 0x02, 0, 4, 16 * at, 16) for at in range(size)])


def overlapping_parts(size):
    code = words([NOP] * size + [EXIT])
    return cubin([("k", code)], symbols=[(f"$k$f{at}", 0x02, 0, 4, 0, len(code)) for at in range(size)])


def one_long_name(size):
    # Every section and symbol named by the same bytes.
    return cubin([("k" * size, words([EXIT]))], symbols=[("k" * size, 0x12, 0x10, 4, 0, 16)] * (size // 4))


def relocated(size):
    data = b"".join(struct.pack("<QQq", 16 * (at % 100), 2 | 1 << 32, 0) for at in range(size))
    return cubin([("k", words([NOP] * 100 + [EXIT]))], [(".rela.text.k", 4, 0, 3, 4, data)])


INPUTS = {
    "branches forward": lambda size: fixed_up(size, lambda at: branch(at, size, 0)),
    "branches to the next": lambda size: fixed_up(size, lambda at: branch(at, at + 1, 0)),
    "branches back to the start": lambda size: fixed_up(size, lambda at: branch(at, 0, 0)),
    "branches back one": lambda size: fixed_up(size, lambda at: branch(at, max(at - 1, 0), 0)),
    "branches across": lambda size: fixed_up(size, lambda at: branch(at, (at * 7919 + 13) % size, 0)),
    "loops nested": nested_loops,
    "moves": lambda size: fixed_up(size, lambda at: move(at % 250, (at + 1) % 250)),
    "unknown words": lambda size: fixed_up(size, lambda at: (0xDEAD0000BEEF0000 | at & 0xFFF, 0)),
    "functions": many_functions,
    "parts": parts,
    "parts over each other": overlapping_parts,
    "one long name": one_long_name,
    "relocations": relocated,
    "records": attributes(lambda size: struct.pack("<BBH", 1, 0x2A, 0) * size),
    "records of registers": attributes(lambda size: struct.pack("<BBHII", 4, 0x2F, 8, 1, 32) * size),
    "records of exits": attributes(lambda size: b"".join(struct.pack("<BBHI", 4, 0x1C, 4, 0) for _ in range(size))),
    "records of branches": attributes(indirect_table),
    "line sequences": lines(lambda size: size, lambda size: 1),
    "line rows": lines(lambda size: 1, lambda size: size),
}


def rows():
    found = []
    for name, make in INPUTS.items():
        def write(folder, size, make=make):
            (folder / "k.cubin").write_bytes(make(size))
            return ["k.cubin", "--format", "json"]
        found.append(Row(f"cubin, {name}: report", write))
    for command in (["annotate"], ["disasm"], ["list"], ["--format", "html"], ["annotate", "--format", "svg"], ["--sort", "live"], ["extract", "-o", "out"], ["gate", "--update"]):
        for name in ("branches across", "moves", "functions", "parts over each other", "one long name"):
            def write(folder, size, command=command, make=INPUTS[name]):
                (folder / "k.cubin").write_bytes(make(size))
                return [command[0], "k.cubin", *command[1:]] if not command[0].startswith("-") else ["k.cubin", *command]
            found.append(Row(f"cubin, {name}: {' '.join(command)}", write))
    for name in ("branches across", "moves", "functions", "loops nested"):
        def write(folder, size, make=INPUTS[name]):
            one = make(size)
            (folder / "a.cubin").write_bytes(one)
            (folder / "b.cubin").write_bytes(make(size + 1) if name == "moves" else one)
            return ["diff", "a.cubin", "b.cubin"]
        found.append(Row(f"cubin, {name}: diff", write))

    def unlike(folder, size):
        (folder / "a.cubin").write_bytes(fixed_up(size, lambda at: move(at % 250, at * 7 % 250)))
        (folder / "b.cubin").write_bytes(fixed_up(size, lambda at: move(at * 11 % 250, at * 13 % 250)))
        return ["diff", "a.cubin", "b.cubin"]
    found.append(Row("cubin, nothing alike: diff", unlike))
    return found
