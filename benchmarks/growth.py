"""Growth of costs with a dimension of the work: columns, and others of benchmarks/dimensions.

Each part, such as `check`, is measured at two sizes. Growth is the ratio of its costs divided by
the ratio of the sizes (by 1 for a part whose cost must not grow); above 1.3 it is too much. CPU
seconds of all processes are compared, as other load changes them less than the time that passes.

    python -m benchmarks.growth --dimensions "numeric columns" --full
"""

import argparse
from collections.abc import Mapping

from benchmarks.dimensions import columns, examples, state
from benchmarks.support.clusters import scratch
from benchmarks.support.growth import Cost, Dimension
from benchmarks.support.report import report

DIMENSIONS = {
    each.name: each
    for each in (
        *(columns.NUMBERS, columns.CATEGORIES),
        *(examples.CLASSES, examples.FILES, examples.LISTS, examples.ROWS),
        *(state.FINISHED_RUNS, state.PAGES_OF_RUNS, state.VERSIONS),
    )
}
MOST_GROWTH = 1.3


def main() -> None:
    """Print a line of JSON for each part of each dimension."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", default=",".join(DIMENSIONS), help="default: %(default)s")
    parser.add_argument("--full", action="store_true", help="the sizes of docs/performance.md")
    parser.add_argument("--sizes", help="two sizes instead, such as 30,300")
    arguments = parser.parse_args()
    for name in arguments.dimensions.split(","):
        dimension = DIMENSIONS[name]
        sizes = dimension.full_sizes if arguments.full else dimension.sizes
        small, large = map(int, arguments.sizes.split(",")) if arguments.sizes else sizes
        _print_growth(dimension, small, large)


def _print_growth(dimension: Dimension, small: int, large: int) -> None:
    before, after = (_measured(dimension, size) for size in (small, large))
    for part, cost in after.items():
        work = 1 if part in dimension.constant else large / small
        growth = cost.seconds / before[part].seconds / work
        report(
            f"{dimension.name}: {part}",
            ours=growth,
            theirs=MOST_GROWTH,
            unit="growth",
            lower_is_better=True,
            sizes=(small, large),
            seconds=[float(f"{each.seconds:.3g}") for each in (before[part], cost)],
            megabytes=[round(each.megabytes) for each in (before[part], cost)],
            verdict="OK" if growth <= MOST_GROWTH else f"over {MOST_GROWTH}",
        )


def _measured(dimension: Dimension, size: int) -> Mapping[str, Cost]:
    with scratch() as folder:
        return dimension.measure(size, folder)


if __name__ == "__main__":
    main()
