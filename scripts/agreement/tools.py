"""Inputs and their architectures, processes and what they leave, and the count of differences."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

OLDEST_SM = 75  # what the newest ptxas still compiles for
PACKAGES = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm", "cuobjdump": "nvidia-cuda-cuobjdump"}


def manifest_archs(folder):
    """{absolute path: arch} of the MANIFEST.tsv in this folder, empty when there is none."""
    table = folder / "MANIFEST.tsv"
    if not table.is_file():
        return {}
    rows = (line.rstrip("\n").split("\t") for line in table.open(errors="replace"))
    return {str((folder / row[0]).resolve()): row[1] for row in rows if len(row) >= 2}


class Inputs:
    """The files below the named folders, in a fixed order, with their architectures."""

    def __init__(self, args, suffixes):
        self.known = {}
        found = []
        for name in args.inputs:
            root = Path(name).resolve()
            for folder in [root, *root.parents][:4]:
                for path, arch in manifest_archs(folder).items():
                    self.known.setdefault(path, arch)
            files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
            found += [p for p in files if p.suffix in suffixes and p.stat().st_size <= args.max_size]
        if args.sample and len(found) > args.sample:
            # by name's hash, so that the same sample is taken on every machine
            found.sort(key=lambda p: hashlib.sha256(p.name.encode() + str(p.stat().st_size).encode()).digest())
            found = sorted(found[: args.sample])
        self.files = found

    def arch(self, path):
        known = self.known.get(str(path))
        if known:
            return known
        with path.open("rb") as f:
            head = f.read(1 << 18)
        target = re.search(rb"^\s*\.target\s+sm_(\d+)([af]?)", head, re.M)
        if not target:
            return "sm_80"
        return f"sm_{max(int(target[1]), OLDEST_SM)}{target[2].decode()}"



class Ran:
    """What a finished process left: exit code (negative: the signal), output, seconds, and whether it hung."""

    def __init__(self, command, timeout, env=None, stdin=None):
        started = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True)
        try:
            self.out, self.err = child.communicate(stdin, timeout=timeout)
            self.hung = False
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            self.out, self.err = child.communicate()
            self.hung = True
        self.code = child.returncode
        self.seconds = time.monotonic() - started

    def crashed(self):
        """A panic (101), a signal or a hang: never right, whatever the input."""
        return self.hung or self.code < 0 or self.code == 101 or b"panicked at" in self.err


class Tools:
    def __init__(self, args):
        self.args = args
        root = Path(__file__).resolve().parent.parent.parent
        built = [root / "target" / kind / "ptxinspect" for kind in ("release", "debug")]
        self.ptxinspect = args.ptxinspect or next((str(p) for p in built if p.exists()), "ptxinspect")

    def path(self, name):
        given = getattr(self.args, name.replace("-", "_"))
        beside = Path(self.args.ptxas).parent / name if self.args.ptxas else None
        found = given or (str(beside) if beside and beside.exists() else shutil.which(name))
        if not found:
            print(f"agree: no {name}: give --{name} PATH (pip install {PACKAGES[name]})", file=sys.stderr)
            sys.exit(2)
        return found

    def ours(self, *rest, env=None, timeout=None, stdin=None):
        return Ran([self.ptxinspect, *map(str, rest)], timeout or self.args.timeout, env, stdin)

    def ours_on_ptx(self, command, path, arch, env=None):
        return self.ours(*command, path, "--arch", arch, "--ptxas", self.path("ptxas"), "--format", "json", env=env)

    def ptxas(self, path, arch, out):
        return Ran([self.path("ptxas"), "-v", "-lineinfo", f"-arch={arch}", str(path), "-o", str(out)], self.args.timeout)

    def ptxas_once(self, path, arch, out):
        """The same, from --cache when this ptxas has seen this text for this architecture."""
        if not self.args.cache:
            return self.ptxas(path, arch, out)
        key = hashlib.sha256(f"{self.path('ptxas')} {arch} {path}\n".encode() + path.read_bytes()).hexdigest()[:32]
        kept = Path(self.args.cache) / key
        if not (kept / "run.json").exists():
            kept.mkdir(parents=True, exist_ok=True)
            ran = self.ptxas(path, arch, kept / "out.cubin")
            if ran.crashed():  # a killed or crashing ptxas says nothing about the file: ask again next time
                return ran
            texts = [text.decode(errors="replace") for text in (ran.out, ran.err)]
            (kept / "run.json").write_text(json.dumps([ran.code, *texts, ran.hung]))
        ran = Ran.__new__(Ran)
        ran.code, said, complained, ran.hung = json.loads((kept / "run.json").read_text())
        ran.out, ran.err = said.encode(), complained.encode()
        if (kept / "out.cubin").exists():
            shutil.copyfile(kept / "out.cubin", out)
        return ran


class Tally:
    """Differences, told one a line as they are found, and counted."""

    def __init__(self, what):
        self.what = what
        self.compared = Counter()
        self.wrong = Counter()
        self.bad_files = set()

    def same(self, kind):
        self.compared[kind] += 1

    def differ(self, kind, path, text):
        self.compared[kind] += 1
        self.wrong[kind] += 1
        self.bad_files.add(str(path))
        if self.wrong[kind] <= 400:
            print(f"{path}: {kind}: {text}", flush=True)

    def check(self, kind, path, where, expected, got):
        if expected == got:
            self.same(kind)
        else:
            self.differ(kind, path, f"{where}: expected {expected}, got {got}")

    def finish(self, files):
        print(f"\n{self.what}: {files} files, {len(self.bad_files)} with differences")
        for kind in sorted(self.compared):
            print(f"  {kind:<22} {self.compared[kind]:>9} compared {self.wrong[kind]:>7} differ")
        return 1 if self.wrong else 0


def parsed(ran, path, tally):
    """Our JSON, or None after saying what went wrong."""
    if ran.crashed() or ran.code not in (0, 1):
        text = ran.err.decode(errors="replace").strip().splitlines()
        tally.differ("fails", path, f"exit {ran.code}{' (hung)' if ran.hung else ''}: {' | '.join(text[:3])[:300]}")
        return None
    try:
        return json.loads(ran.out)
    except ValueError as e:
        tally.differ("bad json", path, str(e))
        return None
