"""Runs loops on a GPU: cycles of a turn with one warp alone, and with 1 to 16 warps on each scheduler."""
import ctypes
import json
import os

# Warps on a scheduler, blocks on an SM, threads of a block. The first is one warp with the SM to itself.
PLACES = [(0, 1, 32), (1, 1, 128), (2, 1, 256), (3, 1, 384), (4, 1, 512), (8, 1, 1024), (16, 2, 1024)]
FEW, MANY = 64, 320


class Bench:
    def __init__(self, driver):
        self.driver = driver
        count = ctypes.c_int()
        driver.call("cuDeviceGetAttribute", ctypes.byref(count), 16, driver.device)
        self.sms = count.value
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

    def run(self, function, blocks, threads, turns):
        """Cycles from the first warp's start to the last one's end, on the SM that has all the blocks asked for."""
        grid = 1 if blocks == 1 else blocks * self.sms
        words = [ctypes.c_uint64(self.clocks.value), ctypes.c_uint64(self.data.value), ctypes.c_uint64(self.sink.value), ctypes.c_uint32(turns)]
        pointers = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.byref(word), ctypes.c_void_p) for word in words])
        self.driver.call("cuLaunchKernel", function, grid, 1, 1, threads, 1, 1, 0, None, pointers, None)
        self.driver.call("cuCtxSynchronize")
        warps = grid * threads // 32
        seen = (ctypes.c_uint64 * (3 * warps))()
        self.driver.call("cuMemcpyDtoH_v2", seen, self.clocks, ctypes.c_size_t(24 * warps))
        sms = {}
        for warp in range(warps):
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
            few = [self.run(function, blocks, threads, FEW) for _ in range(repeats)]
            many = [self.run(function, blocks, threads, MANY) for _ in range(repeats)]
            if None not in few + many:
                seen[place] = round((min(many) - min(few)) / (MANY - FEW), 3)
        self.driver.call("cuModuleUnload", module)
        return {"registers": registers, "cycles": seen}


def run(folder, record, driver):
    bench = Bench(driver)
    with open(record, "w") as file:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".cubin"):
                path = os.path.join(folder, name)
                # A multiplication by a warp group asks for four warps.
                seen = bench.measure(path, PLACES[1:] if "wgmma" in name else PLACES)
                file.write(json.dumps({"loop": name[:-6], **seen}) + "\n")
                file.flush()
