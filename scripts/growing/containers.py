"""Containers that grow, nest, overlap or unpack to far more than they are."""
import io
import os
import struct
import zipfile
import zlib

from . import cubins
from .row import Row

PTX = b".version 8.0\n.target sm_80\n.address_size 64\n"


def fatbin(body):
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", len(body)) + body


def entry(kind, data, flags=0, compressed=0, size=0, table=b""):
    data += bytes(-len(data) % 8)
    header = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64 + len(table), len(data), compressed, 64 if table else 0, 0, 8, 80, 0, 0, flags, 0, size)
    return header + table + data


def host(sections, strings=b""):
    """An ELF for a CPU: sections (name offset, data offset, bytes) over `strings` and what lies after."""
    count = len(sections) + 2
    names = b"\0.shstrtab\0" + strings
    body = bytes(64) + names
    headers = bytes(64) + struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    for name, offset, size in sections:
        headers += struct.pack("<IIQQQQIIQQ", name, 1, 2, 0, offset, size, 0, 0, 1, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, len(body), 0, 64, 56, 0, 64, min(count, 0xFEFF), 1)
    return header + body[64:] + headers


def host_with(data):
    names = b".nv_fatbin\0"
    at = 64 + 11 + len(names) + 3 * 64
    return host([(11, at, len(data))], names) + data


def zipped(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def archive(members, names=b""):
    head = lambda name, size: name.ljust(16) + b"0".ljust(12) + b"0".ljust(6) * 2 + b"644".ljust(8) + str(size).encode().ljust(10) + b"`\n"
    out = b"!<arch>\n"
    if names:
        out += head(b"//", len(names)) + names + b"\n" * (len(names) % 2)
    for name, data in members:
        out += head(name, len(data)) + data + b"\n" * (len(data) % 2)
    return out


def universal(size):
    """Every slice is the file itself."""
    count = max(min(size // 20, 3000), 1)
    total = 8 + 20 * count
    return struct.pack(">II", 0xCAFEBABE, count) + struct.pack(">IIIII", 7, 3, 0, total, 0) * count


def nested(wrap):
    def make(size):
        data = PTX
        for _ in range(min(size // 10, 5000)):
            data = wrap(data)
            if len(data) > size * 10:
                break
        return data
    return make


def block(size):
    """One compressed block, whose members are all of it, again and again."""
    import_size = min(size * 600, 60 << 20)
    packed = lz4_zeros(import_size)
    count = min(size // 64, 1000)
    rows = b"".join(struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 0, import_size, 0, 0, 0, 8, 80, 0, 0, 0x2000, 0, import_size) for _ in range(count))
    return fatbin(entry(0x100, packed, 0x2000, len(packed), import_size, struct.pack("<II", count, len(rows)) + rows))


def lz4_zeros(size):
    """An LZ4 block of so many zeros: a literal, then one long match, then five literals."""
    match = size - 6 - 4
    out = bytes([0x1F, 0, 1, 0])
    rest = match - 15
    return out + b"\xff" * (rest // 255) + bytes([rest % 255]) + bytes([0x50]) + bytes(5)


def lz4_bombs(size):
    each = 60 << 20
    packed = lz4_zeros(each)
    count = max(min(size * 10 // len(packed), 4), 1)
    return fatbin(entry(2, packed, 0x2000, len(packed), each) * count)


def lz4_literal_copies(data, copies):
    """An LZ4 block: `data` (at most 64 KB), then copies of it by one match."""
    size = len(data) * copies
    extra = len(data) - 15
    out = bytes([0xFF]) + b"\xff" * (extra // 255) + bytes([extra % 255]) + data + struct.pack("<H", len(data))
    rest = size - len(data) - 5 - 4 - 15
    return out + b"\xff" * (rest // 255) + bytes([rest % 255]) + bytes([0x50]) + data[-5:], size


def deflated_fatbin(size):
    """A zip whose only member is a fatbin of as many entries as inflating gives."""
    body = entry(1, PTX) * size
    return zipped([("a.fatbin", fatbin(body))], zipfile.ZIP_DEFLATED)


def deflate_bombs(size):
    data = b"\x7fELF\x02\x01\x01" + bytes(11) + bytes([190, 0]) + bytes(50 << 20)
    count = max(min(size // 5000, 20), 1)
    return zipped([(f"{at}.cubin", data) for at in range(count)], zipfile.ZIP_DEFLATED)


def zips_in_zips(size):
    data = PTX
    inner = zipped([(f"{at}.ptx", PTX + bytes(200)) for at in range(10)], zipfile.ZIP_DEFLATED)
    for _ in range(5):
        inner = zipped([(f"{at}.zip", inner) for at in range(max(min(size // 1000, 10), 1))], zipfile.ZIP_DEFLATED)
    return inner


def overlapping_zip(size):
    """Members whose records all name the same bytes."""
    data = zlib.compress(bytes(1 << 20), 9)[2:-4]
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0, zlib.crc32(bytes(1 << 20)), len(data), 1 << 20, 1, 0) + b"a" + data
    count = min(size // 5, 20000)
    record = lambda at: struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, 0, 0, zlib.crc32(bytes(1 << 20)), len(data), 1 << 20, 5, 0, 0, 0, 0, 0, 0) + b"%05d" % at
    central = b"".join(record(at) for at in range(count))
    return local + central + struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(central), len(local), 0)


def fatbins_in_fatbins(size):
    data = PTX
    for _ in range(min(size // 100, 1000)):
        data = fatbin(entry(2, data))
    return data


def tiny_fatbins(size):
    return b"\x50\xed\x55\xba\x01\x00\x10\x00" + struct.pack("<Q", size * 8) + b"\x50\xed\x55\xba\x01\x00\x10\x00" * size


def headers_that_lie(size):
    return fatbin(b"")[:8] + struct.pack("<Q", 1 << 60) + entry(2, PTX) * (size // 10)


def long_archive_names(size):
    return archive([(b"/0", fatbin(entry(1, PTX)))] * (size // 10), b"n" * (size * 4) + b"/\n")


def long_section_names(size):
    strings = b".nv_fatbin" + b"a" * (size * 4) + b"\0"
    count = min(size // 2, 60000)
    at = 64 + 11 + len(strings) + (count + 2) * 64
    data = fatbin(entry(1, PTX)) * count
    return host([(11, at + i * len(fatbin(entry(1, PTX))), len(fatbin(entry(1, PTX)))) for i in range(count)], strings) + data


def sections_over_each_other(size):
    count = min(size // 2, 60000)
    names = b".nv_fatbin\0"
    return host([(11, 64, 11)] * count, names)


def scanned(size):
    """Cubins' first bytes everywhere, each with tables as large as can be."""
    start = bytearray(b"\x7fELF\x02\x01\x01\x33" + bytes(56))
    start[18:20] = struct.pack("<H", 190)
    start[40:48] = struct.pack("<Q", 64)
    start[58:62] = struct.pack("<HH", 0, 0xFFFF)
    return host([], b"") + bytes(start) * (size // 4)


def coff(size):
    count = min(size // 2, 60000)
    out = struct.pack("<HHIIIHH", 0x8664, count, 0, 0, 0, 0, 0)
    return out + (b".nv_fatb" + struct.pack("<IIIIIIHHI", 0, 0, 40, 20, 0, 0, 0, 0, 0x40300040)) * count


INPUTS = {
    "universal of itself": universal,
    "zips in zips": zips_in_zips,
    "zip, stored in itself": nested(lambda data: zipped([("a.zip", data)])),
    "zip, deflated in itself": nested(lambda data: zipped([("a.zip", data)], zipfile.ZIP_DEFLATED)),
    "archive in archive": nested(lambda data: archive([(b"a/", data)])),
    "fatbin in fatbin": fatbins_in_fatbins,
    "zip members": lambda size: zipped([(f"{at}.ptx", PTX) for at in range(size)]),
    "zip members of nothing": lambda size: zipped([(f"{at}.txt", b"") for at in range(size)]),
    "zip members, deflated": lambda size: zipped([(f"{at}.txt", bytes(70000)) for at in range(min(size // 10, 6000))], zipfile.ZIP_DEFLATED),
    "zip members over each other": overlapping_zip,
    "zip with long names": lambda size: zipped([("n" * 60000 + f"{at}.fatbin", fatbin(entry(1, PTX) * (size // 100))) for at in range(max(size // 10000, 1))]),
    "archive members": lambda size: archive([(b"a/", PTX)] * size),
    "archive with long names": long_archive_names,
    "fatbin entries": lambda size: fatbin(entry(1, PTX) * size),
    "fatbin entries of nothing": lambda size: fatbin(entry(2, b"") * size),
    "fatbin block": block,
    "fatbin LZ4 bombs": lz4_bombs,
    "fatbins of nothing": tiny_fatbins,
    "fatbin that is cut off": headers_that_lie,
    "fatbin, deflated": deflated_fatbin,
    "deflate bombs": deflate_bombs,
    "ELF with long names": long_section_names,
    "ELF with sections over each other": sections_over_each_other,
    "ELF with a fatbin": lambda size: host_with(fatbin(entry(1, PTX) * size)),
    "COFF sections": coff,
    "magic everywhere": lambda size: host_with(b"\x50\xed\x55\xba\x01\x00\x10\x00" * size),
    "zeros": lambda size: host_with(bytes(size * 10)),
}


def folders(folder, size):
    at = folder / "deep"
    here = os.getcwd()
    at.mkdir(exist_ok=True)
    os.chdir(at)
    for _ in range(min(size, 1900)):
        os.mkdir("d")
        os.chdir("d")
    open("k.ptx", "wb").write(PTX)
    os.chdir(here)
    return ["list", "deep"]


def wide_folder(folder, size):
    at = folder / "wide"
    at.mkdir(exist_ok=True)
    for number in range(min(size, 20000)):
        (at / f"{number}.ptx").write_bytes(PTX)
    return ["list", "wide"]


def links(folder, size):
    at = folder / "linked"
    at.mkdir(exist_ok=True)
    (at / "k.ptx").write_bytes(PTX)
    for number in range(min(size // 100, 500)):
        (at / f"{number}").symlink_to("/usr")
        (at / f"a{number}").symlink_to(".")
    return ["list", "linked"]


def rows():
    found = []
    for name, make in INPUTS.items():
        for command in (["list"], ["--format", "json"], ["list", "--scan"]):
            def write(folder, size, make=make, command=command):
                (folder / "input").write_bytes(make(size))
                return [command[0], "input", *command[1:]] if command[0] == "list" else ["input", *command]
            found.append(Row(f"{name}: {' '.join(command)}", write))

    def scan(folder, size):
        (folder / "input").write_bytes(scanned(size))
        return ["list", "--scan", "input"]
    found.append(Row("ELF that is scanned: list --scan", scan))

    def packed(folder, size):
        nops = cubins.words([cubins.NOP]) * 256
        data, unpacked = lz4_literal_copies(cubins.kernel([cubins.NOP] * 8) + nops, size // 2)
        (folder / "input").write_bytes(fatbin(entry(2, data, 0x2000, len(data), unpacked)))
        return ["input", "--format", "json"]
    found.append(Row("fatbin of a cubin with much behind it: report", packed))
    found.append(Row("folders in folders: list", folders))
    found.append(Row("files of a folder: list", wide_folder))
    found.append(Row("links of a folder: list", links))
    found.append(Row("/dev/zero: list", lambda folder, size: ["list", "/dev/zero"] if size == 1000 else None))
    found.append(Row("/dev/zero: report", lambda folder, size: ["/dev/zero"] if size == 1000 else None))

    def fifo(command):
        def make(folder, size):
            if size != 1000:
                return None
            os.path.exists(folder / "pipe") or os.mkfifo(folder / "pipe")
            return [*command, "pipe"]
        return make
    found.append(Row("a pipe that nobody writes to: list", fifo(["list"])))
    found.append(Row("a pipe that nobody writes to: report", fifo([])))
    found.append(Row("a pipe that nobody writes to: diff", fifo(["diff", "/dev/null"])))
    return found
