"""Long lines of Python as several, broken at the commas of their longest brackets."""

from collections.abc import Iterator

OPEN, CLOSE = "([{", ")]}"
SHORT = 24  # an item up to it shares a line with others


def wrapped(line: str, width: int) -> str:
    """Return an expression or statement, broken if it is longer than a width."""
    if len(line) <= width or "\n" in line:
        return line
    groups = [(start, end) for start, end, depth in _groups(line) if depth == 0]
    start, end = max(groups, key=lambda group: group[1] - group[0], default=(0, 0))
    items = [*_items(line[start + 1 : end])]
    if not items:
        return line
    if len(items) == 1 and items[0][:1] in OPEN:
        return f"{line[: start + 1]}{wrapped(items[0], width)}{line[end:]}"
    room = width - 4
    if all(len(item) <= SHORT for item in items):
        shown = _filled(items, room)
    else:
        shown = [f"{wrapped(item, room)}," for item in items]
    body = "\n".join(f"    {one}" for item in shown for one in item.splitlines())
    return f"{line[: start + 1]}\n{body}\n{line[end:]}"


def _filled(items: list[str], width: int) -> list[str]:
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{item},"
    return lines


def _items(text: str) -> Iterator[str]:
    """Yield the parts of a text between its commas outside of brackets and quotes."""
    start = 0
    for at, sign, depth in _signs(text):
        if sign == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _groups(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where each pair of brackets starts and ends, and how many are around it."""
    opened: list[int] = []
    for at, sign, _ in _signs(text):
        if sign in OPEN:
            opened.append(at)
        elif sign in CLOSE:
            start = opened.pop()
            yield start, at, len(opened)


def _signs(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield the signs outside of quotes and comments, with the number of brackets around them."""
    depth, quote, is_escaped = 0, "", False
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and not is_escaped else quote
            is_escaped = sign == "\\" and not is_escaped
        elif sign in "\"'":
            quote = sign
        elif sign == "#":
            return
        else:
            depth -= sign in CLOSE
            yield at, sign, depth
            depth += sign in OPEN
