"""Names of columns: as files and requests have them, as a workload declares them, and made ones."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence


def normal_form(name: str) -> str:
    """Return a column's name in lower case with underscores; `Trip ID` is `trip_id`."""
    return "_".join(name.strip().lower().split())


def declared_names(
    names: Sequence[str], known: Iterable[str], aliases: Mapping[str, str]
) -> list[str]:
    """Return the declared name of each name in a file or request, or else the name itself.

    A declared name or an alias counts exactly, else in normal form, unless another column of the
    file has it exactly.
    """
    known = list(known)
    exact = [name if name in known else aliases.get(name, "") for name in names]
    free = [name for name in known if name not in exact]
    by_form = _by_form((alias, name) for alias, name in aliases.items() if name in free)
    by_form |= _by_form(zip(free, free, strict=True))
    return [
        match or by_form.get(normal_form(name), name.strip())
        for name, match in zip(names, exact, strict=True)
    ]


def _by_form(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the declared names by the normal form of the written ones, unless two share it."""
    names: dict[str, set[str]] = {}
    for written, name in pairs:
        names.setdefault(normal_form(written), set()).add(name)
    return {form: alike.pop() for form, alike in names.items() if len(alike) == 1}


def distinct_names(
    names: Sequence[str],
    make: Callable[[str], str],
    *,
    taken: Iterable[str] = (),
    same: Callable[[str], str] = str,
) -> dict[str, str]:
    """Return the made name of each name, with a number where it would not be distinct.

    `make` returns the made name without a number; names that it leaves as they are come first.
    Distinct names differ in the form that `same` returns, also from those that are `taken`.
    """
    used, made = set(taken), {}
    for name in sorted(names, key=lambda name: make(name) != name):
        base = make(name)
        numbered = (f"{base}_{number}" if number > 1 else base for number in itertools.count(1))
        made[name] = next(candidate for candidate in numbered if same(candidate) not in used)
        used.add(same(made[name]))
    return {name: made[name] for name in names}
