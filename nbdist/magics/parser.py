"""Parser of a magic's line: argparse that raises, suggests near options, and leaves Python code unchanged.

It also splits the expressions on a line, and evaluates those about values of the notebook.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import difflib
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from nbdist.errors import ArrayError, OptionError


class HelpShown(Exception):
    """`--help` was given and its text printed; the magic does nothing else."""


MOST_LISTED = 12
"""The most options listed in the error about an unknown one; if there are more, it names the nearest and says
where all are."""


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the process; its arguments are those of a `Magic`."""

    def __init__(self, magic: str, description: str, *, example: str) -> None:
        super().__init__(
            prog=magic,
            description=textwrap.fill(description, 80),
            epilog="example:\n" + textwrap.indent(example, "  "),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("--help", "-h", action="store_true", help="show this and do nothing")

    def error(self, message: str) -> NoReturn:
        """Raise argparse's message as an OptionError."""
        raise OptionError(f"{self.prog}: {message}. See {self.prog} --help.")

    def parse(self, line: str) -> argparse.Namespace:
        """Return the options of one line.

        Raises:
          OptionError: Something unknown or unreadable, with the nearest known option.
          HelpShown: `--help` was among them.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise OptionError(f"{self.prog}: cannot read {line!r}: {error}.") from error
        if "#" in words:  # a comment, as people write after a line of Python
            words = words[: words.index("#")]
        words = _joined(words)
        if {"--help", "-h"}.intersection(words):
            self.print_help()
            raise HelpShown
        options, unknown = self.parse_known_args(words)
        if unknown:
            raise OptionError(self._unknown(unknown[0]))
        return options

    def parse_among_code(self, line: str) -> argparse.Namespace:
        """Parse a line whose words may be Python: quotes and brackets keep a word together, and are kept.

        Raises:
          OptionError: Something unknown or unreadable, with the nearest known option.
          HelpShown: `--help` was among them.
        """
        return self.parse(shlex.join(_words_of_code(line)))

    def parse_before_code(self, line: str) -> tuple[argparse.Namespace, str]:
        """Split a line into the options at its front and Python code, which is not split by a shell's rules.

        Args:
          line: Such as `--on 0 w['a b'].shape`.

        Returns:
          The options, and the code; empty if there is none.

        Raises:
          OptionError: Something unknown or unreadable, with the nearest known option.
          HelpShown: `--help` was among the options.
        """
        words, rest = self.split_options(line)
        # What the code stands for must be there.
        code = ["code"] * any(action.required for action in self._actions)
        return self.parse(shlex.join([*words, *code])), rest

    def parse_before_expression(self, line: str) -> tuple[argparse.Namespace, str]:
        """Do as `parse_before_code`, for a line that must have an expression, with no option after it.

        Raises:
          OptionError: An option is unknown, cannot be read, or comes after the expression.
          HelpShown: The line is empty, or asks for help.
        """
        if line.split()[-1:] in ([], ["--help"], ["-h"]):
            self.parse("--help")
        asked, expression = self.parse_before_code(line)
        late = next((word for word in expression.split() if word in self.flags), None)
        if late is not None:
            raise OptionError(
                f"{late} goes before the expression, such as {self.prog} {late} "
                f"{'S ' if self.takes_value(late) else ''}{expression.split()[0]}."
            )
        return asked, expression

    def split_options(self, line: str) -> tuple[list[str], str]:
        """Return the options at the front of a line with their values, unparsed, and the rest of the line."""
        words, rest = [], line.strip()
        while rest.startswith("--") or rest == "-h":
            word, _, rest = rest.partition(" ")
            words.append(word)
            if self.takes_value(word):
                value, rest = _first_word(rest.strip())
                words += [value] if value else []
            rest = rest.strip()
        return words, rest

    @property
    def flags(self) -> list[str]:
        """All options, such as `--on`, and those of one letter."""
        return [flag for action in self._actions for flag in action.option_strings]

    def choices(self, flag: str) -> list[str]:
        """Return the choices of an option; empty if it has no fixed choices."""
        actions = [action for action in self._actions if flag in action.option_strings]
        return [str(choice) for action in actions for choice in action.choices or ()]

    def takes_value(self, flag: str) -> bool:
        """Return whether a value follows an option."""
        return any(flag in action.option_strings and action.nargs != 0 for action in self._actions)

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return (
                f"{self.prog} takes no {word!r}. Lists have commas and no blanks, such as --hosts h1,h2; "
                f"see {self.prog} --help."
            )
        known = self.flags
        near = difflib.get_close_matches(word.split("=")[0], known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        flags = [flag for flag in known if flag.startswith("--")]
        if len(flags) > MOST_LISTED:
            return f"{self.prog} has no option {word!r}.{hint} See {self.prog} --help."
        return f"{self.prog} has no option {word!r}.{hint} It has {', '.join(flags) or 'none'}."


def _words_of_code(line: str) -> list[str]:
    """Return the words of `k=p['a b'] --on "0,1"`: `["k=p['a b']", "--on", "0,1"]`."""
    words, rest = [], line.strip()
    while rest:
        word, rest = _first_word(rest)
        words.append(word)
    return words


def names_and_expressions(words: Sequence[str]) -> dict[str, str]:
    """Return expressions by name: `["w", "k=model.a.kernel"]` → `{"w": "w", "k": "model.a.kernel"}`.

    Raises:
      ArrayError: An expression has no name.
    """
    found = {}
    for word in words:
        name, is_named, expression = word.partition("=")
        if not name.isidentifier() or (is_named and not expression):
            value = "EXPR" if is_named else word
            raise ArrayError(
                f"{word!r} is no name to pull into. Give it one: NAME={value}, in brackets where it has blanks, "
                "such as k=(a + b)."
            )
        found[name] = expression if is_named else name
    return found


def evaluated(expression: str, namespace: Mapping[str, Any], *, option: str = "") -> Any:
    """Return the value of an expression in the notebook.

    Args:
      expression: The expression as it was typed.
      namespace: The names of the notebook.
      option: The option with this value, followed by a space; empty for the magic's own expression.

    Raises:
      ArrayError: The text is no expression, or the notebook lacks one of its names.
    """
    missing = missing_name(expression, namespace)
    if missing is not None:
        raise ArrayError(
            f"{option}{expression}: this notebook has no name {missing!r}"
            + ("." if option else ", and no session runs that could have it.")
        )
    return eval(expression, dict(namespace))


def missing_name(expression: str, namespace: Mapping[str, Any]) -> str | None:
    """Return the first name of an expression that the notebook does not have; None if it has all.

    Raises:
      ArrayError: The text is no expression.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ArrayError(f"{expression!r} is no expression of Python: {error.msg}.") from None
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    free = (node.id for node in names if isinstance(node.ctx, ast.Load) and node.id not in bound)
    return next((one for one in free if one not in namespace and not hasattr(builtins, one)), None)


def _first_word(line: str) -> tuple[str, str]:
    """Return the first word, kept together by quotes and brackets, and the rest of the line.

    A word that is one quoted string is an option's value, and is returned without its quotes.
    """
    end, quote, depth = len(line), "", 0
    for place, sign in enumerate(line):
        if sign.isspace() and not quote and depth <= 0:
            end = place
            break
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([{") - (sign in ")]}")
    word, rest = line[:end], line[end:].strip()
    quoted = len(word) > 1 and word[0] == word[-1] and word[0] in "'\""
    return (word[1:-1] if quoted else word), rest


OPTIONS_OF_OTHERS = ("--slurm-option", "--mpi-option")


def _joined(words: Sequence[str]) -> list[str]:
    """Make `--slurm-option --gres=gpu:4` one word: argparse would take the second word for an option of nbdist."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in OPTIONS_OF_OTHERS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
