"""What else is read: policies, baselines, reports, metadata of caches, launches."""
import json

from . import cubins
from .row import Row


def deep(open_, close, size, middle="1"):
    return open_ * size + middle + close * size


def rows():
    def policy(text):
        def make(folder, size):
            (folder / "k.cubin").write_bytes(cubins.kernel([cubins.EXIT]))
            (folder / "ptxinspect.toml").write_text(text(size))
            return ["gate", "k.cubin"]
        return make

    def baseline(text):
        def make(folder, size):
            (folder / "k.cubin").write_bytes(cubins.kernel([cubins.EXIT]))
            (folder / "ptxinspect.lock.json").write_text(text(size))
            return ["gate", "k.cubin"]
        return make

    def report(text):
        def make(folder, size):
            (folder / "a.json").write_text(text(size))
            (folder / "b.json").write_text(text(size))
            return ["diff", "a.json", "b.json"]
        return make

    def beside(text):
        def make(folder, size):
            (folder / "k.cubin").write_bytes(cubins.kernel([cubins.EXIT]))
            (folder / "k.json").write_text(text(size))
            return ["list", "."]
        return make

    arrays = lambda size: deep("[", "]", size)
    objects = lambda size: deep('{"a":', "}", size)
    return [
        Row("policy of nested arrays: gate", policy(lambda size: "x = " + arrays(size))),
        Row("policy of nested tables: gate", policy(lambda size: "x = " + deep("{a = ", "}", size))),
        Row("policy of dotted keys: gate", policy(lambda size: "a" + ".a" * size + " = 1\n")),
        Row("policy of rules: gate", policy(lambda size: '[[rule]]\nkernel = "k*"\nbudgets = ["registers <= 9"]\n' * size)),
        Row("policy of patterns: gate", policy(lambda size: f'[[rule]]\nkernel = "{"*a" * size}"\nbudgets = ["registers <= 9"]\n')),
        Row("baseline of nested arrays: gate", baseline(arrays)),
        Row("baseline of nested objects: gate", baseline(objects)),
        Row("report of nested arrays: diff", report(arrays)),
        Row("report of nested objects: diff", report(objects)),
        Row("metadata of nested arrays: list", beside(lambda size: '{"a":' + arrays(size) + "}")),
        Row("metadata of nested objects: list", beside(objects)),
        Row("a pattern of stars: list", lambda folder, size: ((folder / "k.cubin").write_bytes(cubins.cubin([("a" * 5000, cubins.words([cubins.EXIT]))])), ["list", "k.cubin", "--kernel", "*a" * min(size, 10000) + "b"])[1]),
        Row("launches: occupancy", lambda folder, size: ((folder / "launches").write_text(json.dumps({"arch": "sm_90", "threads": 128, "registers": 32}) + "\n"), ["occupancy", "--arch", "sm_90", "--threads", "128", "--registers", "32"])[1]),
    ]
