"""Launches the kernels of a folder, each on random small integers, and compares with the product computed here."""
import concurrent.futures
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile

from . import fragments, ptx, spoil, tiles
from .forms import parts
from .jobs import digest
from .values import ADDED, FACTORS, decode, encode, expand, matrix, product

MEMORY = 1 << 20


class Device:
    """Memory on the GPU, and launches that read and write it."""

    def __init__(self, driver):
        self.driver = driver
        self.places = []
        for _ in range(3):
            place = ctypes.c_uint64()
            driver.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(MEMORY))
            self.places.append(place)

    def launch(self, cubin, threads, data, out_bytes, image, a, b, metadata):
        """(what the threads stored, the image as it is afterwards)."""
        call = self.driver.call
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoad", ctypes.byref(module), cubin.encode())
        call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        # 8: the most of shared memory that a launch may ask for
        call("cuFuncSetAttribute", function, 8, tiles.SIZE)
        source, result, shared = self.places
        call("cuMemcpyHtoD_v2", source, bytes(data), ctypes.c_size_t(len(data)))
        call("cuMemcpyHtoD_v2", shared, bytes(image), ctypes.c_size_t(len(image)))
        call("cuMemsetD8_v2", result, ctypes.c_ubyte(0xA5), ctypes.c_size_t(MEMORY))
        values = [source, result, shared, ctypes.c_uint32(len(image)), ctypes.c_uint64(a), ctypes.c_uint64(b), ctypes.c_uint32(metadata)]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values))
        call("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, tiles.SIZE, None, arguments, None)
        call("cuCtxSynchronize")
        out, back = ctypes.create_string_buffer(max(out_bytes, 4)), ctypes.create_string_buffer(max(len(image), 4))
        call("cuMemcpyDtoH_v2", out, result, ctypes.c_size_t(out_bytes or 4))
        call("cuMemcpyDtoH_v2", back, shared, ctypes.c_size_t(len(image) or 4))
        call("cuModuleUnload", module)
        return out.raw[:out_bytes], back.raw[:len(image)]


def encoded(element, rows):
    return [[encode(element, value) for value in row] for row in rows]


def flat(banks, layouts, first=None):
    """The bytes of registers, thread after thread: `first` is a word before them."""
    out = bytearray()
    for thread in range(fragments.threads(layouts[0])):
        if first:
            out += first[thread].to_bytes(4, "little")
        for layout, held in zip(layouts, banks):
            for register in held[thread]:
                out += register.to_bytes(fragments.register_bits(layout) // 8, "little")
    return out


def registers(data, layouts):
    """The registers of each thread for each layout, of bytes as `flat` makes them."""
    found, at = [[] for _ in layouts], 0
    for _ in range(fragments.threads(layouts[0])):
        for held, layout in zip(found, layouts):
            size = fragments.register_bits(layout) // 8
            count = len(layout["registers"])
            held.append([int.from_bytes(data[at + size * i:at + size * (i + 1)], "little") for i in range(count)])
            at += size * count
    return found


def difference(expected, got, copy=0):
    """The first, in words; None where there is none."""
    for row, (own, other) in enumerate(zip(expected, got)):
        for column, (value, seen) in enumerate(zip(own, other)):
            if value != seen:
                wrong = sum(x != y for one, two in zip(expected, got) for x, y in zip(one, two))
                return f"copy {copy} [{row}][{column}] is {seen}, expected {value}; {wrong} differ"
    return None


def multiply(device, job, one, cubin, source):
    """A launch of a multiplication: None, or how the product differs."""
    (m, n, k), types, is_sparse = parts(job["opcode"])
    d, a, b = types[:3]
    c = types[3] if len(types) > 3 else d
    read, written = ptx.operands(job)
    op = "xor" if ".xor." in job["opcode"] else "and" if ".and." in job["opcode"] else None
    count = fragments.copies(written[0])
    stored = k // 2 if is_sparse else k
    factors = [[matrix(source, m, stored, FACTORS[a]) for _ in range(count)], [matrix(source, k, n, FACTORS[b]) for _ in range(count)]]
    added = [matrix(source, m, n, ADDED[c]) for _ in range(count)]
    whole = [expand(own, a, one["nibble"]) if is_sparse else own for own in factors[0]]
    expected = [product(*three, op) for three in zip(whole, factors[1], added)]
    bits = {"A": [encoded(a, own) for own in factors[0]], "B": [encoded(b, own) for own in factors[1]],
            "C": [encoded(c, own) for own in added]}
    # D of wgmma is what is added, before
    banks = [fragments.pack(layout, bits["C" if layout["operand"] == "D" else layout["operand"]]) for layout in read]
    image = bytearray()
    if "b" in one:
        image = bytearray(source.randbytes(tiles.SIZE))
        tiles.place(image, one["b"]["tile"], job["transposed"][1], [list(column) for column in zip(*bits["B"][0])], b)
    if "a" in one:
        tiles.place(image, one["a"]["tile"], job["transposed"][0], bits["A"][0], a)
    numbers = [int(one[side]["value"], 16) if side in one else 0 for side in "ab"]
    out, _ = device.launch(cubin, ptx.threads(job), flat(banks, read), ptx.sizes(job)[1] * ptx.threads(job), image, *numbers,
                           one.get("nibble", 0) * 0x11111111)
    found = fragments.unpack(written[0], registers(out, written)[0])
    for copy, (own, seen) in enumerate(zip(expected, found)):
        told = difference(own, [[decode(d, value) for value in row] for row in seen], copy)
        if told:
            return told
    return None


def move(device, job, _one, cubin, source):
    """A launch of ldmatrix, stmatrix or movmatrix: None, or how what is moved differs."""
    read, written = ptx.operands(job)
    count = len(read or written)
    moved = [matrix(source, 8, 8, (0, 65535)) for _ in range(count)]
    image = bytearray(source.randbytes(4096))
    rows = source.sample(range(0, len(image), 16), 32)
    def fill():
        for row in range(8 * count):
            image[rows[row]:rows[row] + 16] = b"".join(value.to_bytes(2, "little") for value in moved[row // 8][row % 8])
    loads = job["family"] == "ldmatrix"
    if loads:
        fill()
    banks = [fragments.pack(layout, [own]) for layout, own in zip(read, moved)]
    data = flat(banks, read or written, rows if ptx.addresses(job) else None)
    out, back = device.launch(cubin, 32, data, ptx.sizes(job)[1] * 32, image, 0, 0, 0)
    if job["family"] == "stmatrix":
        fill()
        return None if back == image else "what is in shared memory differs"
    for own, layout, held in zip(moved, written, registers(out, written)):
        told = difference(own, fragments.unpack(layout, held)[0])
        if told:
            return told
    return None


def compile_all(ptxas, folder, jobs, work):
    """What ptxas said of those that it refused, by name."""
    def one(job):
        path, cubin = os.path.join(folder, job["name"] + ".ptx"), os.path.join(work, job["name"] + ".cubin")
        made = subprocess.run([ptxas, "-arch", "sm_90a", path, "-o", cubin], capture_output=True, text=True)
        return job["name"], None if made.returncode == 0 else made.stderr.strip().splitlines()[-1]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: said for name, said in pool.map(one, jobs) if said}


def line(job, one, told, device):
    """A line of the record."""
    found = {"opcode": job["opcode"], "family": job["family"], "layouts": digest(job["layouts"])}
    if "a" in job:
        found["a"] = job["a"]
    if any(job.get("transposed", [])):
        found["transposed"] = job["transposed"]
    if "b" in one:
        found["descriptors"] = [[one[side]["value"], *one[side]["tile"].values()] for side in "ab" if side in one]
    return found | {"equal": told is None, "device": device} | ({"difference": told} if told else {})


def run(folder, record, ptxas, driver, only=None, spoil_seed=None):
    """Launches what the record does not have yet. After an error of the GPU a new process goes on."""
    with open(os.path.join(folder, "jobs.jsonl"), encoding="utf-8") as file:
        jobs = [json.loads(text) for text in file]
    jobs = [job for job in jobs if not only or job["family"] in only]
    done = len(read(record)) if os.path.exists(record) else 0
    device, name = Device(driver), driver.name().split(",")[0]
    with tempfile.TemporaryDirectory() as work, open(record, "a", encoding="utf-8") as out:
        todo = [(job, index) for job in jobs for index in range(len(job["launches"]))][done:]
        refused = compile_all(ptxas, folder, list({job["name"]: job for job, _ in todo}.values()), work)
        for job, index in todo:
            one, act, wrong = job["launches"][index], multiply if "mma" in job["opcode"] else move, None
            source, broken = random.Random(f"{job['name']} {index}"), False
            told = refused.get(job["name"])
            if spoil_seed is not None:
                wrong, job, one = spoil.spoilt(job, one, random.Random(f"{spoil_seed} {job['name']} {index}")) or (None, job, one)
            if not told:
                try:
                    told = act(device, job, one, os.path.join(work, job["name"] + ".cubin"), source)
                except RuntimeError as error:
                    told, broken = str(error), True
            out.write(json.dumps(line(job, one, told, name) | ({"spoilt": wrong} if wrong else {})) + "\n")
            out.flush()
            if (told is None) == (wrong is not None):
                print(f"{job['name']} {job['opcode']}: {told or 'equal'} {wrong or ''}", flush=True)
            if broken:
                os.execv(sys.executable, [sys.executable, *sys.argv])
    return tell(record)


def read(record):
    with open(record, encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def tell(record):
    """How many of each family are as expected: equal, and those spoilt not."""
    lines = read(record)
    for family in dict.fromkeys(line["family"] for line in lines):
        own = [line for line in lines if line["family"] == family]
        equal, spoilt = sum(line["equal"] for line in own), sum("spoilt" in line for line in own)
        numbers = {described[0] for line in own for described in line.get("descriptors", [])}
        said = (f", {len(numbers)} descriptors" if numbers else "") + (f", {spoilt} spoilt" if spoilt else "")
        print(f"{family:12} {equal} of {len(own)} launches equal, {len({line['opcode'] for line in own})} opcodes{said}")
    return 0 if all(line["equal"] != ("spoilt" in line) for line in lines) else 1


def summarise(record, summary):
    """One line for each form, with the descriptors of those that are about descriptors."""
    forms = {}
    for line in read(record):
        described = line.pop("descriptors", [])
        own = forms.setdefault((line["opcode"], line["family"], line.get("a"), str(line.get("transposed"))),
                               line | {"launches": 0, "equal": True})
        own["launches"] += 1
        own["equal"] = own["equal"] and line["equal"]
        if line["family"] == "descriptors":
            own.setdefault("descriptors", []).extend(described)
    with open(summary, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(own, separators=(",", ":")) + "\n" for own in forms.values())
