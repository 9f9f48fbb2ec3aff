"""Many sources on executors: threads, processes, and a real Dask cluster whose workers come and go."""

import concurrent.futures
import multiprocessing
import pickle

import ptxinspect
import pytest


@pytest.fixture(scope="module")
def cubins(testdata):
    return sorted((testdata / "cubin").glob("*.cubin"))


@pytest.fixture(scope="module")
def expected(cubins):
    return [ptxinspect.inspect(path, threads=128).to_json() for path in cubins]


def test_a_report_is_the_same_in_another_process(cubins):
    for source in (cubins[0], cubins[0].read_bytes()):
        report = ptxinspect.inspect(source, threads=128)
        again = pickle.loads(pickle.dumps(report))
        assert again.to_json() == report.to_json() and again.to_text() == report.to_text()
        assert again.rows() == report.rows() and again.to_html() == report.to_html()
        assert pickle.loads(pickle.dumps(again)).to_text() == report.to_text()


def test_threads_and_processes_answer_in_order(cubins, expected):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert [report.to_json() for report in ptxinspect.map(cubins, pool, threads=128)] == expected
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = ptxinspect.map(({"source": path, "threads": 128} for path in cubins), pool, ahead=3)
        assert [report.to_json() for report in found] == expected


def test_an_error_is_raised_or_is_the_answer(cubins):
    jobs = [cubins[0], "absent.cubin", cubins[1]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        with pytest.raises(ptxinspect.InputError, match="cannot open absent.cubin"):
            list(ptxinspect.map(jobs, pool))
        first, error, last = ptxinspect.map(jobs, pool, raises=False)
        assert isinstance(error, ptxinspect.InputError) and len(first) and len(last)
        with pytest.raises(ValueError, match="ahead=0"):
            list(ptxinspect.map(jobs, pool, ahead=0))


def test_an_answer_that_an_executor_lost_is_asked_for_again(cubins):
    class Lost:
        def result(self):
            raise ConnectionError("a worker left")

    class Forgetful:
        def __init__(self, executor):
            self.executor, self.submitted = executor, 0

        def submit(self, fn, *args):
            self.submitted += 1
            return Lost() if self.submitted == 2 else self.executor.submit(fn, *args)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        forgetful = Forgetful(pool)
        found = list(ptxinspect.map(cubins[:3], forgetful, threads=128))
    assert [report.to_json() for report in found] == [ptxinspect.inspect(path, threads=128).to_json() for path in cubins[:3]]
    assert forgetful.submitted == 4


def test_dask_workers_come_and_go(cubins, expected):
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        jobs = [path.read_bytes() for path in cubins] * 4
        names = [str(path) for path in cubins] * 4
        answers = ptxinspect.map(
            ({"source": data, "name": name} for data, name in zip(jobs, names)), client.get_executor(pure=False), ahead=16, threads=128
        )
        found = []
        for at, report in enumerate(answers):
            found.append(report.to_json())
            if at == 10:
                cluster.scale(1)
            if at == 20:
                cluster.scale(4)
        assert len(found) == len(jobs)
        for name, data, text in zip(names, jobs, found):
            assert text == ptxinspect.inspect(data, threads=128, name=name).to_json()
