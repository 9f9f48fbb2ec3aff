"""As much of libcuda as launches take."""
import ctypes
import os
import shutil
import subprocess
import sys


class Driver:
    """A context on the first GPU."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def name(self):
        text = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", text, 100, self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return f"{text.value.decode()}, driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def find_ptxas(named):
    for path in [named, shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]:
        if path and os.path.exists(path):
            return path
    sys.exit("no ptxas: name one with --ptxas")


def probe():
    """The GPU's name, asked in a process of its own; without one, says so and returns None."""
    asked = subprocess.run([sys.executable, os.path.abspath(__file__)], capture_output=True, text=True)
    if asked.returncode != 0:
        print("no GPU: " + asked.stderr.strip().splitlines()[-1])
        return None
    return asked.stdout.strip()


if __name__ == "__main__":
    print(Driver().name())
