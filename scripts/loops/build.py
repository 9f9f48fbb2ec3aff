"""PTX to cubins, many at a time."""
import concurrent.futures
import json
import os
import subprocess


def write(folder, kernels):
    os.makedirs(folder, exist_ok=True)
    names = []
    for name, kernel in kernels:
        with open(os.path.join(folder, name + ".ptx"), "w") as file:
            file.write(kernel.text())
        if hasattr(kernel, "manifest"):
            with open(os.path.join(folder, name + ".json"), "w") as file:
                json.dump(kernel.manifest(), file)
        names.append(name)
    return names


def compile_all(folder, names, ptxas, jobs=2, arch="sm_90a"):
    def one(name):
        path = os.path.join(folder, name)
        done = subprocess.run([ptxas, "-arch", arch, "-lineinfo", path + ".ptx", "-o", path + ".cubin"], capture_output=True, text=True)
        return name, done.returncode, done.stdout + done.stderr

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        refused = [(name, said) for name, code, said in pool.map(one, names) if code]
    return refused


def compile_text(text, cubin, ptxas, arch="sm_90a"):
    with open(cubin + ".ptx", "w") as file:
        file.write(text)
    subprocess.run([ptxas, "-arch", arch, cubin + ".ptx", "-o", cubin], check=True)
