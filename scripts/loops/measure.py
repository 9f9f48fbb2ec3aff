"""Runs loops on a GPU: cycles of a turn with one warp alone, and with 1 to 16 warps on each scheduler."""
import ctypes
import json
import os
import subprocess
import sys

from kernels.driver import Driver

# Warps on a scheduler, blocks on an SM, threads of a block. The first is one warp with the SM to itself.
PLACES = [(0, 1, 32), (1, 1, 128), (2, 1, 256), (3, 1, 384), (4, 1, 512), (8, 1, 1024), (16, 2, 1024)]
FEW, MANY = 64, 320
# Bytes behind each pointer that a kernel takes, and what it takes for a number.
REGION, NUMBER = 512 << 20, 1 << 17
# Blocks on an SM that are tried, of kernels that say how many threads a block has.
BLOCKS = [1, 2, 3, 4, 6, 8, 12, 16]


class Bench:
    def __init__(self, driver):
        self.driver = driver
        count = ctypes.c_int()
        driver.call("cuDeviceGetAttribute", ctypes.byref(count), 16, driver.device)
        self.sms = count.value
        self.regions = []
        self.clocks, self.data, self.sink = (self.allocate(size) for size in (1 << 20, 1 << 20, 1 << 24))
        values = (ctypes.c_uint32 * (1 << 18))()
        state = 12345
        for index in range(1 << 18):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            # Floats between one and two, halves too: nothing here is a NaN, and transcendental functions take their usual way.
            values[index] = 0x3F803C00 | (state >> 12 & 0x007F_03FF)
        driver.call("cuMemcpyHtoD_v2", self.data, values, ctypes.sizeof(values))

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def words(self, turns):
        """What loops of generators take."""
        return [ctypes.c_uint64(self.clocks.value), ctypes.c_uint64(self.data.value), ctypes.c_uint64(self.sink.value), ctypes.c_uint32(turns)]

    def run(self, function, blocks, threads, words, smem=0, everywhere=False):
        """Cycles from the first warp's start to the last one's end, on the SM that has all the blocks asked for."""
        grid = 1 if blocks == 1 and not everywhere else blocks * self.sms
        pointers = (ctypes.c_void_p * len(words))(*[ctypes.cast(ctypes.byref(word), ctypes.c_void_p) for word in words])
        warps = grid * threads // 32
        self.driver.call("cuMemsetD8_v2", self.clocks, ctypes.c_ubyte(0), ctypes.c_size_t(24 * warps))
        self.driver.call("cuLaunchKernel", function, grid, 1, 1, threads, 1, 1, smem, None, pointers, None)
        self.driver.call("cuCtxSynchronize")
        seen = (ctypes.c_uint64 * (3 * warps))()
        self.driver.call("cuMemcpyDtoH_v2", seen, self.clocks, ctypes.c_size_t(24 * warps))
        sms = {}
        # Warps that left at once have no clocks.
        for warp in (warp for warp in range(warps) if seen[3 * warp]):
            sms.setdefault(seen[3 * warp + 2] & 0xFFFFFFFF, []).append((seen[3 * warp], seen[3 * warp + 1]))
        spans = [max(end for _, end in times) - min(start for start, _ in times)
                 for times in sms.values() if len(times) == blocks * threads // 32]
        return min(spans) if spans else None

    def measure(self, cubin, places=PLACES, repeats=4):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(cubin, "rb") as file:
            image = file.read()
        self.driver.call("cuModuleLoadData", ctypes.byref(module), image)
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"loop")
        value = ctypes.c_int()
        self.driver.call("cuFuncGetAttribute", ctypes.byref(value), 0, function)
        most = value.value
        self.driver.call("cuFuncGetAttribute", ctypes.byref(value), 4, function)
        registers = value.value
        seen = {}
        for place, blocks, threads in places:
            if threads > most or (-(-registers // 8) * 8) * threads * blocks > 65536:
                continue
            few = [self.run(function, blocks, threads, self.words(FEW)) for _ in range(repeats)]
            many = [self.run(function, blocks, threads, self.words(MANY)) for _ in range(repeats)]
            if None not in few + many:
                seen[place] = round((min(many) - min(few)) / (MANY - FEW), 3)
        self.driver.call("cuModuleUnload", module)
        return {"registers": registers, "cycles": seen}


    def real(self, cubin, manifest, repeats=6):
        """A loop of a kernel that somebody wrote, with as many blocks on an SM as fit."""
        module, function, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        with open(cubin, "rb") as file:
            image = file.read()
        self.driver.call("cuModuleLoadData", ctypes.byref(module), image)
        self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"loop")
        threads, smem = manifest["threads"], manifest["smem"]
        self.driver.call("cuFuncSetAttribute", function, 8, smem)
        self.driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(value), function, threads, ctypes.c_size_t(smem))
        fit = value.value
        while len(self.regions) < manifest["parameters"].count("u64"):
            self.regions.append(self.allocate(REGION))
            self.driver.call("cuMemsetD8_v2", self.regions[-1], ctypes.c_ubyte(0), ctypes.c_size_t(REGION))

        def words(turns):
            regions = iter(self.regions)
            made = {"u64": lambda: ctypes.c_uint64(next(regions).value), "f32": lambda: ctypes.c_float(1)}
            own = [made.get(kind, lambda: ctypes.c_uint32(NUMBER))() for kind in manifest["parameters"]]
            return own + [ctypes.c_uint64(self.clocks.value), ctypes.c_uint32(turns), ctypes.c_uint64(0)]

        seen = {}
        for blocks in BLOCKS:
            if blocks > fit or blocks * threads % 128 or blocks * threads > 2048:
                continue
            times = [[self.run(function, blocks, threads, words(turns), smem, True) for _ in range(repeats)] for turns in (FEW, MANY)]
            few, many = ([time for time in some if time] for some in times)
            if few and many:
                seen[blocks * threads // 128] = round((min(many) - min(few)) / (MANY - FEW), 3)
        self.driver.call("cuModuleUnload", module)
        return {"blocks_fit": fit, "cycles": seen}


def one(cubin):
    """What `apart` asks a process of its own for."""
    with open(cubin[:-6] + ".json") as manifest:
        print(json.dumps(Bench(Driver()).real(cubin, json.load(manifest))))


def apart(cubin):
    """A loop in a process of its own: a kernel that reads where nothing is spoils its process alone, and one that hangs is ended."""
    ask = "import sys; sys.path.insert(0, sys.argv[1]); from loops import measure; measure.one(sys.argv[2])"
    scripts = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        asked = subprocess.run([sys.executable, "-c", ask, scripts, cubin], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return {"error": "did not end", "cycles": {}}
    if asked.returncode != 0:
        return {"error": asked.stderr.strip().splitlines()[-1], "cycles": {}}
    return json.loads(asked.stdout)


def run(folder, record, driver):
    bench = Bench(driver)
    with open(record, "w") as file:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".cubin"):
                path = os.path.join(folder, name)
                if os.path.exists(path[:-6] + ".json"):
                    seen = apart(path)
                else:
                    # A multiplication by a warp group asks for four warps.
                    seen = bench.measure(path, PLACES[1:] if "wgmma" in name else PLACES)
                file.write(json.dumps({"loop": name[:-6], **seen}) + "\n")
                file.flush()
