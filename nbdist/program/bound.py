"""The shortest time that one run of a program can take, from the speeds of a device: a bound, no forecast."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.contract.program import Program
from nbdist.errors import ProgramError
from nbdist.quantities import count_text

HOW = (
    "No run is faster: the longest of its matrix products at peak speed, its arguments and results moved once "
    "through the memory, and what its collectives must send over all "
    "links at once. A run is slower where these wait for "
    "each other. A program that reads only parts of its arguments may take less time for memory."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Of one device, as JAX counts devices.

    Attributes:
      flops_per_s: Peak of the type that the products have.
      memory_bytes_per_s: Of its memory.
      link_bytes_per_s: That it can send over all its links together; None where it is not known.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Seconds that one run takes at least.

    Attributes:
      compute_s: For its matrix products and convolutions; None where they cannot be counted.
      memory_s: To read its arguments and write its results once.
      network_s: To send what its collectives must send; None where the links' speed is not known.
      left_out: What it does not count, in words.
    """

    compute_s: float | None
    memory_s: float
    network_s: float | None
    left_out: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The longest of them, as all may happen at the same time."""
        return max(self.compute_s or 0.0, self.memory_s, self.network_s or 0.0)


def bound_of(program: Program, speeds: Speeds) -> Bound:
    """How fast a program can be at best; see `HOW`.

    Collectives in branches, in loops whose turns are not known, and between slices, are left out.

    Raises:
      ProgramError: The program does not fit, so that nothing is known of a run.
    """
    memory = program.memory
    if program.refusal is not None or memory is None:
        raise ProgramError(
            f"The program {program.name} has no bound: it was not compiled, or its memory is not known."
        )
    sure = [each for each in program.collectives if not each.in_branch]
    links = [each for each in sure if not each.between_slices]
    sent = sum(each.sent * each.times for each in links if each.times is not None)
    unknown = sum(each.times is None for each in links)
    branched = len(program.collectives) - len(sure)
    left_out = []
    if program.matmul_flops is None:
        left_out.append("its products")
    if speeds.link_bytes_per_s is None:
        left_out.append("its collectives")
    else:
        if unknown:
            left_out.append(
                f"{count_text(unknown, 'collective')} in loops whose turns are not known"
            )
        if branched:
            left_out.append(f"{count_text(branched, 'collective')} in branches")
    if between := sum(each.between_slices for each in sure):
        left_out.append(f"{count_text(between, 'collective')} between slices")
    flops = program.matmul_flops
    return Bound(
        compute_s=None if flops is None else flops / speeds.flops_per_s,
        memory_s=(memory.arguments + memory.outputs) / speeds.memory_bytes_per_s,
        network_s=None if speeds.link_bytes_per_s is None else sent / speeds.link_bytes_per_s,
        left_out=(*left_out, *program.unread),
    )
