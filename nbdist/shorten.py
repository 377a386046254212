"""Long names shortened in the middle so that no two look alike.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

GAP = "…"
SMALLEST_WIDTH = 8
_TOKEN = re.compile(r"\w+|\W+")


def shorten(names: Sequence[str], width: int) -> tuple[str, ...]:
    """Fit every name into `width` characters.

    Names that fit stay as they are. The others keep the words in which they differ from the rest,
    then their first and last words, then what else fits from the end; `…` stands for what is left
    out. Where the words that differ do not fit, a number tells the names apart.

    Args:
      names: Python expressions or host names; equal names are given equal texts.
      width: At least 8.

    Returns:
      One text for each name, in the same order; different for different names.

    Raises:
      ValueError: `width` is too small.
    """
    if width < SMALLEST_WIDTH:
        raise ValueError(f"width is {width}; allowed: at least {SMALLEST_WIDTH}")
    unique = tuple(dict.fromkeys(names))
    if all(len(name) <= width for name in unique):
        return tuple(names)
    tokens = {name: tuple(_TOKEN.findall(name)) for name in unique}
    branches = _branches(tokens.values())
    texts = {
        name: name if len(name) <= width else _by_words(tokens[name], branches, width)
        for name in unique
    }
    _number_repeated(texts, width)
    return tuple(texts[name] for name in names)


def _branches(every: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], set[str]]:
    """Return the words that follow each beginning; where there are several, they tell names apart."""
    followers: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for tokens in every:
        for index, token in enumerate((*tokens, "")):
            followers[tokens[:index]].add(token)
    return followers


def _by_words(
    tokens: tuple[str, ...], branches: dict[tuple[str, ...], set[str]], width: int
) -> str:
    words = [index for index, token in enumerate(tokens) if token[0].isalnum() or token[0] == "_"]
    differing = {index for index in range(len(tokens)) if len(branches[tokens[:index]]) > 1}
    kept = set(differing)
    # The words in which the name differs first; of the rest the ends say most.
    for index in dict.fromkeys([*words[-1:], *words[:1], *reversed(words)]):
        if len(_assemble(tokens, kept | {index})) <= width:
            kept.add(index)
    text = _assemble(tokens, kept)
    return text if len(text) <= width else _cut("".join(tokens), width)


def _assemble(tokens: tuple[str, ...], kept: set[int]) -> str:
    """Return the kept tokens, the punctuation between two kept words, and a gap for each run left out."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        between = not token[0].isalnum() and {index - 1, index + 1} <= kept | {-1, len(tokens)}
        if index in kept or between:
            parts.append(token)
        elif parts[-1:] != [GAP]:
            parts.append(GAP)
    return "".join(parts)


def _cut(name: str, width: int, between: str = GAP) -> str:
    head = (width - len(between)) // 2
    tail = width - len(between) - head
    return f"{name[:head]}{between}{name[len(name) - tail :]}"


def _number_repeated(texts: dict[str, str], width: int) -> None:
    """Give every name whose text another one has as well a number in the gap."""
    counts = Counter(texts.values())
    taken = {text for text, count in counts.items() if count == 1}
    for name, text in texts.items():
        if counts[text] == 1:
            continue
        number = 1
        while (numbered := _cut(name, width, f"{GAP}{number}{GAP}")) in taken:
            number += 1
        texts[name] = numbered
        taken.add(numbered)
