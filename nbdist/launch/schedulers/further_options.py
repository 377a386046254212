"""Further options of a scheduler's program, which a person gives as it would be typed there."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from nbdist.errors import OptionError
from nbdist.spelling import do_instead, option


def further_options(
    lines: Sequence[str],
    *,
    parameter: str,
    example: str,
    ours: Mapping[tuple[str, ...], str],
    is_one: Callable[[str, Sequence[str]], bool],
) -> tuple[str, ...]:
    """Further options as the words they are.

    Args:
      lines: As they were given.
      parameter: Of nbdist, which takes them.
      example: What is expected, such as `an option of srun, such as --gres=gpu:4`.
      ours: Options that nbdist gives itself, and which of its own to use instead, or why not.
      is_one: Whether a word is one of these options.

    Raises:
      OptionError: No option, or one that nbdist gives itself.
    """
    words: list[str] = []
    for line in lines:
        try:
            found = shlex.split(line)
        except ValueError as error:  # a quote that is not closed
            raise OptionError(
                f"{option(parameter, [line])}: {error}; expected {example}."
            ) from None
        if not found or not found[0].startswith("-"):
            raise OptionError(f"{option(parameter, [line])}: expected {example}.")
        words += found
    for word in words:
        for names, instead in ours.items():
            if is_one(word, names):
                raise OptionError(
                    f"{option(parameter, [word])}: nbdist gives it itself; {do_instead(instead)}."
                )
    return tuple(words)
