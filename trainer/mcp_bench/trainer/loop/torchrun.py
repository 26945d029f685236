"""torchrun, with the exit code of a command that found nothing to work on.

torchrun exits with 1 however its processes fail, and a loop has to know a fruitless turn from a failed one.
"""

from __future__ import annotations

import sys

from mcp_bench.servers.errors import FruitlessError
from mcp_bench.trainer.launch import launcher_arguments
from mcp_bench.trainer.recipe import Recipe


def launcher(recipe: Recipe) -> list[str]:
    """Return Python arguments that start a module on all devices of this machine; none for one device."""
    torchrun = launcher_arguments(recipe)
    return ["-m", __name__, *torchrun[2:]] if torchrun else []  # in place of torchrun's own module


def main() -> None:
    """Run torchrun with the arguments of this process."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    try:
        run.main()
    except ChildFailedError as error:  # any process: the loss of one can be the first that is not finite
        if any(failure.exitcode == FruitlessError.exit_code for failure in error.failures.values()):
            sys.exit(FruitlessError.exit_code)
        raise


if __name__ == "__main__":
    main()
