"""Run a function over many pieces as tasks of Ray."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from demur.engines.failure import engine_failure, import_package

__all__ = ["run_on_ray"]

Item = TypeVar("Item")
Result = TypeVar("Result")
_TASKS_PER_CPU = 4


def run_on_ray(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the function's result for each item, in the order in which tasks finish.

    It runs on the cluster that this process is connected to, else on the one in `RAY_ADDRESS`,
    else on this machine. A connection that was opened here is closed here. Ray pickles the
    function by name, so it must be defined in a module.

    Raises:
        MissingExtraError: Ray is not installed.
        EngineError: A task failed, retries included.
    """
    ray = import_package("ray")
    if not items:
        return
    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        yield from _run_tasks(ray, function, items)
    except ray.exceptions.RayError as error:
        raise engine_failure("Ray", error) from error
    finally:
        if started:
            ray.shutdown()


def _run_tasks(
    ray: Any, function: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Result]:
    def call(item: Item) -> Result:
        return function(item)

    task = ray.remote(call)
    most = _TASKS_PER_CPU * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    waiting, running = iter(items), []
    while True:
        for item in waiting:
            running.append(task.remote(item))
            if len(running) >= most:
                break
        if not running:
            return
        done, running = ray.wait(running)
        yield from ray.get(done)
