"""Parts of the reference that follow from the code: magics, options of a start, what methods return."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import nbdist
from nbdist.launch.model.start_options import FLAGS, Flag, StartOptions
from nbdist.magics import options
from nbdist.magics.commands import DistMagics
from nbdist.magics.parser import Parser
from nbdist.notation import bytes_text
from nbdist.rehearsal.topology import CHIPS, Chip, read_topology
from nbdist.tools import doors as tool_commands
from nbdist.tools.table import TOOLS

MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.M)
SPECIAL = re.compile(r"([\\*_<>|\[\]`])")
HELP = "--help"


def filled(text: str) -> str:
    """A page, with every mark replaced.

    Raises:
      KeyError: A mark that names no part.
    """
    return MARK.sub(lambda found: PARTS[found[1]](), text)


def plain(text: str) -> str:
    """Text as Markdown that shows it as it is, with words that are typed as code."""
    words = []
    for word in text.replace("%%", "%").split(" "):
        typed = re.fullmatch(r"(\(?)((?:--|%|~/)\S*?)([,;:.)]*)", word)
        words.append(f"{typed[1]}`{typed[2]}`{typed[3]}" if typed else SPECIAL.sub(r"\\\1", word))
    return " ".join(words)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- the options of a start ------------------------------------------------------------------------


def start_options() -> str:
    """One table a heading of `%dist_init --help`: both spellings, default, unit, and what it is."""
    groups: dict[str, list[str]] = {}
    for name, flag in FLAGS.items():
        groups.setdefault(flag.group, []).append(name)
    parts = []
    for group, names in groups.items():
        head = ("`%dist_init`, `nbdist.start`", "type, default, unit", "")
        parts += [f"## {heading(group)}", table(head, (start_row(name) for name in names))]
    return "\n\n".join(parts)


def heading(group: str) -> str:
    """The heading of a group of options."""
    typed = re.match(r"(--framework \w+|jax\.\S+)(.*)", group)
    return f"`{typed[1]}`{typed[2]}" if typed else group[0].upper() + group[1:]


def start_row(name: str) -> list[str]:
    """One option: as it is typed and as it is written in Python; type, default and unit; help."""
    flag, (field,) = FLAGS[name], [field for field in fields(StartOptions) if field.name == name]
    python = f"{name}={'False' if flag.name.startswith('--no-') else '…'}"
    if flag.argparse.get("action") == "store_true" and not flag.name.startswith("--no-"):
        python = f"{name}=True"
    kind = str(field.type).replace("|", "\\|")
    return [
        f"`{typed(flag)}`<br>`{python}`",
        f"`{kind}`<br>`{field.default!r}`{' seconds' * name.endswith('_s')}",
        plain(flag.help),
    ]


def typed(flag: Flag) -> str:
    """An option as a person types it, with what stands behind it."""
    names = ", ".join(flag.names)
    if flag.argparse.get("action") == "store_true":
        return names
    choices = flag.argparse.get("choices")
    value = ",".join(map(str, choices)) if choices else flag.argparse.get("metavar")
    value = f"{{{value}}}" if choices else str(value or flag.dest.upper())
    return f"{names} [{value}]" if flag.argparse.get("nargs") == "?" else f"{names} {value}"


def init_options() -> str:
    """The options of `%dist_init` that are none of `nbdist.start`."""
    of_start = {name for flag in FLAGS.values() for name in flag.names}
    parser = options.parser("dist_init")
    return options_table(parser, lambda action: not of_start.intersection(action.option_strings))


# -- the magics ------------------------------------------------------------------------------------


def magics() -> str:
    """A section a magic: what it does, its options and an example, from its parser and its docstring."""
    parts, first = [], dict[str, str]()
    for name, magic in sorted(options.MAGICS.items()):
        parser = magic.parser()
        if parser.prog in first:
            parts += [f"## `%%{name}`", f"The same as [`{parser.prog}`](#{first[parser.prog]})."]
            continue
        first[parser.prog] = name.replace("_", "-")
        parts += [f"({name.replace('_', '-')})=\n## `{parser.prog}`", *section(name, parser)]
    return "\n\n".join(parts)


def section(name: str, parser: Parser) -> list[str]:
    """What stands under the heading of one magic."""
    described, method = " ".join((parser.description or "").split()), documented(name)
    said = [method] if method.startswith(described.rstrip(".")) else [described, method]
    parts = [plain(text) for text in said if text]
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    usage = textwrap.fill(usage, 84, subsequent_indent="    ", break_on_hyphens=False)
    if name == "dist_init":
        return [
            *parts,
            options_table(
                parser, lambda action: bool({"--restart", "--attach"} & {*names(action)})
            ),
            "All others are [options of a start](options.md).",
            example(parser),
        ]
    parts.append(f"```text\n{usage}\n```")
    return [*parts, options_table(parser), example(parser)]


def documented(name: str) -> str:
    """The docstring of a magic's method, without the help that is put behind it; of `%%local` none."""
    method = getattr(DistMagics, name, None)
    original = getattr(method, "__wrapped__", method)
    return " ".join((original.__doc__ or "").split()) if original is not None else ""


def example(parser: Parser) -> str:
    """What a person can type as it is."""
    text = textwrap.dedent((parser.epilog or "").removeprefix("example:\n"))
    return f"```ipython3\n{text}\n```"


def names(action: argparse.Action) -> list[str]:
    """How an option is typed; of what has no dashes, the word that stands for it."""
    return list(action.option_strings) or [str(action.metavar or action.dest)]


def options_table(
    parser: Parser, wanted: Callable[[argparse.Action], bool] = lambda action: True
) -> str:
    """The options of a magic but `--help`, which each has."""
    rows = []
    for action in parser._actions:
        if HELP in action.option_strings or not wanted(action):
            continue
        value = "" if action.nargs == 0 or not action.option_strings else value_of(action)
        rows.append(
            [f"`{', '.join(names(action))}{value}`".replace("|", "\\|"), plain(action.help or "")]
        )
    return table(("option", ""), rows) if rows else "It has no options."


def value_of(action: argparse.Action) -> str:
    """What stands behind an option."""
    if action.choices:
        return f" {{{','.join(map(str, action.choices))}}}"
    return f" {action.metavar or action.dest.upper()}"


# -- tools -----------------------------------------------------------------------------------------


def tools() -> str:
    """A row for each tool: what must be allowed, and what it does."""
    rows = (
        [
            f"`{tool.name}`",
            "" if tool.needs == "read" else f"`{tool.needs}`",
            plain(tool.does),
        ]
        for tool in TOOLS.values()
    )
    return table(("tool", "`--allow`", ""), rows)


def commands() -> str:
    """A section for each command of a tool, and for the server: what it does, and its options."""
    listed = argparse.ArgumentParser().add_subparsers()
    tool_commands.add_commands(listed)
    parts = []
    for name, parser in listed.choices.items():
        does = parser.description or "Serve the tools to an agent, over standard input and output."
        parts.append(f"## `nbdist {name}`\n\n{plain(does)}\n\n{options_table(parser)}")
    return "\n\n".join(parts)


# -- what methods return ---------------------------------------------------------------------------


def returned() -> str:
    """A section a class that methods of `Session` return, and a class that those lead to."""
    found = [one for one in led_to(nbdist.Session) if one is not nbdist.Session]
    for one in found:  # grows meanwhile
        found += [new for new in led_to(one) if new not in found]
    parts = [
        f"## `{one.__name__}`\n\n{documented_class(one)}"
        for one in sorted(found, key=lambda one: one.__name__)
    ]
    return "\n\n".join(parts)


def led_to(one: type) -> list[type]:
    """The classes of nbdist that public attributes of a class have, and its public methods return."""
    hints = list(get_type_hints(one).items()) if is_dataclass(one) else []
    for name, member in vars(one).items():
        method = member.fget if isinstance(member, property) else member
        if inspect.isfunction(method):
            hints.append((name, get_type_hints(method).get("return")))
    return list(
        dict.fromkeys(
            new for name, hint in hints if not name.startswith("_") for new in classes(hint)
        )
    )


def classes(hint: Any) -> Iterator[type]:
    """The classes of nbdist in a type hint."""
    if isinstance(hint, type) and hint.__module__.startswith("nbdist."):
        yield hint
    for argument in get_args(hint):
        yield from classes(argument)


def documented_class(one: type) -> str:
    """A class as autodoc shows it; nobody but nbdist makes one, so that its arguments do not count."""
    name = f"{one.__module__}.{one.__qualname__}"
    return f"```{{eval-rst}}\n.. autoclass:: {name}()\n   :members:\n   :undoc-members:\n```"


# -- what is known of chips -----------------------------------------------------------------------


def chips() -> str:
    """A row a generation of TPU, each with the page that its figures are from."""
    head = (
        "",
        "also",
        "devices a chip",
        "memory of a chip",
        "bf16 peak",
        "memory bandwidth",
        "links, bandwidth of all",
        "largest slice",
        "source",
    )
    return table(head, (chip_row(chip) for chip in CHIPS))


def chip_row(chip: Chip) -> list[str]:
    """One generation of TPU."""
    largest = read_topology(f"{chip.name}-{chip.pod * chip.cores}")
    links = "" if chip.ici_bytes_per_s is None else f", {chip.ici_bytes_per_s / 1e9:,.0f} GB/s"
    return [
        f"`{chip.name}`",
        ", ".join(f"`{alias}`" for alias in chip.aliases),
        str(chip.devices),
        bytes_text(chip.memory_bytes),
        f"{chip.bf16_flops / 1e12:,.0f} TFLOP/s",
        f"{chip.hbm_bytes_per_s / 1e9:,.0f} GB/s",
        f"{chip.ici_links}{links}",
        f"`{largest.name}` (`{largest.counted_name}`)",
        f"[page]({chip.source})",
    ]


def changelog() -> str:
    """The repository's, with links that lead somewhere from a page of the site."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace("](notebooks/", "](../notebooks/")


PARTS: Mapping[str, Callable[[], str]] = {
    "magics": magics,
    "start-options": start_options,
    "init-options": init_options,
    "tools": tools,
    "commands": commands,
    "returned": returned,
    "chips": chips,
    "changelog": changelog,
}
"""What can stand in a mark."""
