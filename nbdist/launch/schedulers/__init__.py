"""Slurm and MPI: allocations, queues, and the commands that lead to their tasks.

`srun` and `mpirun` take further options, which a person writes as on their command lines; `further_options` reads
them for both.
"""

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
    """Return further options of a scheduler's program, split into words.

    Args:
      lines: The options as they were given.
      parameter: The parameter of nbdist that takes them.
      example: The expected form, such as `an option of srun, such as --gres=gpu:4`.
      ours: The options that nbdist sets itself, each with nbdist's option to use instead, or why there is none.
      is_one: Called with a word and the names of an option; tells whether the word is that option.

    Raises:
      OptionError: The text is no option, or one that nbdist sets itself.
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
