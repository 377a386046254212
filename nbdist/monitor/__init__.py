"""Many processes' reports as one snapshot: equal facts are shown once, and differences are named.

In: the `Report` that each process publishes, received on a thread and a socket of the monitor's own; the kernel's
own facts (`Known`).
Out: a `Snapshot` for the views, up to ten times a second; and each process's last report, also once it is gone.

`Merger`, here, keeps the newest report of each process and makes snapshots of them. Reports are compared only
where they are of the same moment (`disagreements.moments`).

Read then: `monitor.py` (the thread that receives reports), `states.py` (the facts that are merged, and the states
and notices that follow from them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import VERSION, Array, Disagreement, Mesh, Process, Report, Snapshot
from nbdist.errors import Notice, VersionError
from nbdist.monitor import disagreements
from nbdist.monitor.merged import ArrayIndex, ArrayVersion, FrameworkIndex, Merged, is_placed
from nbdist.monitor.states import (
    ExpectedProcess,
    Known,
    Latest,
    at_rest,
    beside_models,
    layout_notices,
    more_disagreements,
    process_now,
    session_state,
    trouble,
    whole_array,
)

SHOWN_DISAGREEMENTS = 20
"""The most disagreements that are listed; a notice counts the others, since a process that missed a cell lacks all
its arrays."""


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Everything computed from arrays, meshes, distributions and models alone."""

    source: Mapping[str, tuple[ArrayVersion, ...]]
    merged: Merged
    meshes: Mapping[str, Mesh]
    arrays: tuple[Array, ...]
    hidden: int
    suspects: tuple[str, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class _Differences:
    """The differences found between the processes of these groups."""

    computed: _Arrays
    groups: tuple[frozenset[int], ...]
    found: tuple[Disagreement, ...]


class Merger:
    """Keeps the newest report of each process and makes snapshots of them.

    A snapshot costs processes + devices; arrays and meshes are merged again only after some
    process has reported a change. Not thread-safe: one thread feeds and asks.
    """

    def __init__(
        self, session: str, planned: Iterable[ExpectedProcess], *, settle_seconds: float = 2.0
    ) -> None:
        """Start with nothing reported.

        Args:
          session: The session's id, passed on in each snapshot.
          planned: The processes of the launch plan; reports of others are ignored.
          settle_seconds: How long processes must differ before it counts as a disagreement. They
            report at different moments, each section at least every two seconds.
        """
        self._session = session
        self._planned = {process.process_id: process for process in planned}
        self._settling = disagreements.Settling(settle_seconds)
        self._latest: dict[int, Latest] = {}
        self._sent: dict[int, int] = {}
        self._index = ArrayIndex()
        self._frameworks = FrameworkIndex()
        self._meshes: dict[str, Mesh] | None = None
        self._computed: _Arrays | None = None
        self._differences: _Differences | None = None
        self._sequence = 0

    def update(self, report: Report, *, time_s: float) -> None:
        """Take in one report; a report older than the newest is ignored.

        Args:
          report: As decoded from the wire.
          time_s: Now, in Unix seconds by this kernel's clock.

        Raises:
          VersionError: The process speaks another version of the contract.
        """
        if report.version != VERSION:
            raise VersionError(
                f"process {report.process_id} (host {report.host}) sends reports of version "
                f"{report.version}, this kernel reads version {VERSION}. Install the kernel's "
                f"nbdist on {report.host} and start again."
            )
        if report.process_id not in self._planned:
            return
        latest = self._latest.get(report.process_id)
        if latest is None or latest.pid != report.pid:
            # Another pid: the process was started again, and nothing known of the old one holds.
            self.forget(report.process_id)
            latest = self._latest[report.process_id] = Latest(
                host=report.host, pid=report.pid, sequence=-1, time_s=time_s
            )
        if report.sequence <= latest.sequence:
            return
        latest.sequence, latest.time_s, latest.host = report.sequence, time_s, report.host
        latest.activity = report.activity or latest.activity
        latest.reported = report.activity or latest.reported
        latest.content_run = report.content_run
        self._take_sections(latest, report)

    def sent(self, process_ids: Iterable[int], run: int) -> None:
        """Note that a cell was sent to processes: their earlier reports are older than it."""
        self._sent.update(dict.fromkeys(process_ids, run))

    def rest(self, process_ids: Iterable[int], cell: int) -> None:
        """Count processes that have replied to a cell as idle; their own reports come a little later."""
        for process_id in process_ids:
            latest = self._latest.get(process_id)
            if latest is not None and latest.activity is not None and latest.activity.cell == cell:
                latest.activity = at_rest(latest.activity)

    def sequence(self, process_id: int) -> int:
        """Return the number of the newest report of a process; -1 before the first."""
        latest = self._latest.get(process_id)
        return -1 if latest is None else latest.sequence

    def forget(self, process_id: int) -> None:
        """Drop everything a process has reported, as when it is started again."""
        if self._latest.pop(process_id, None) is not None:
            self._sent.pop(process_id, None)
            self._index.forget(process_id)
            self._frameworks.forget(process_id)
            self._meshes = None

    def snapshot(self, known: Known, *, time_s: float) -> Snapshot:
        """Return everything known of the session now.

        Args:
          known: The kernel's own facts.
          time_s: Now, in Unix seconds by this kernel's clock.
        """
        self._drop_lost(known)
        processes = tuple(
            process_now(
                self._planned[process_id], self._latest.get(process_id), known, time_s=time_s
            )
            for process_id in sorted(self._planned)
        )
        computed = self._compute()
        differing = self._disagreements(processes, computed, known, time_s)
        self._sequence += 1
        state = session_state(processes, known)
        return Snapshot(
            session=self._session,
            sequence=self._sequence,
            time=time_s,
            state=state,
            recovers_at=known.ends_at if state == "recovering" else None,
            processes=processes,
            devices=tuple(
                device
                for process_id in sorted(self._latest)
                for device in self._latest[process_id].devices
            ),
            meshes=tuple(computed.meshes.values()),
            arrays=computed.arrays,
            arrays_omitted=computed.hidden
            + max((latest.arrays_omitted for latest in self._latest.values()), default=0),
            distributions=computed.merged.distributions,
            models=computed.merged.models,
            disagreements=differing[:SHOWN_DISAGREEMENTS],
            notices=(
                *known.notices,
                *trouble(processes, known, time_s=time_s),
                *more_disagreements(len(differing) - SHOWN_DISAGREEMENTS),
                *computed.notices,
            ),
        )

    def _take_sections(self, latest: Latest, report: Report) -> None:
        if report.devices is not None:
            latest.devices = report.devices
        if report.meshes is not None and report.meshes != latest.meshes:
            latest.meshes = report.meshes
            self._meshes = None
        if report.arrays is not None:
            latest.arrays_omitted = report.arrays_omitted or 0
            self._index.update(report.process_id, report.arrays)
        if report.progress is not None:
            latest.progress = report.progress[-1] if report.progress else None
        self._frameworks.update(report.process_id, report.distributions, report.models)

    def _drop_lost(self, known: Known) -> None:
        """Forget the arrays of lost processes; their devices and meshes stay in the picture."""
        # When all are lost, the last picture stays.
        if self._latest.keys() - known.lost.keys():
            for process_id in known.lost:
                self._index.forget(process_id)
                self._frameworks.forget(process_id)

    def _compute(self) -> _Arrays:
        versions = self._index.versions()
        meshes = self._known_meshes()
        merged = self._frameworks.merged()
        kept = self._computed
        if kept is None or not (
            kept.source is versions and kept.meshes is meshes and kept.merged is merged
        ):
            reporting = len(self._index.processes)
            arrays = tuple(
                version.as_array(reporting) for known in versions.values() for version in known
            )
            # The mesh of an array comes with another section, which may still be on its way.
            shown = tuple(array for array in arrays if is_placed(array, meshes))
            kept = self._computed = _Arrays(
                source=versions,
                merged=merged,
                meshes=meshes,
                arrays=shown,
                hidden=len(arrays) - len(shown),
                suspects=disagreements.suspects(versions, reporting, meshes),
                notices=(
                    *layout_notices(merged),
                    *whole_array(beside_models(shown, merged), meshes),
                ),
            )
        return kept

    def _known_meshes(self) -> dict[str, Mesh]:
        if self._meshes is None:
            self._meshes = {}
            for process_id in sorted(self._latest):
                for mesh in self._latest[process_id].meshes:
                    self._meshes.setdefault(mesh.id, mesh)
        return self._meshes

    def _disagreements(
        self, processes: tuple[Process, ...], computed: _Arrays, known: Known, time_s: float
    ) -> tuple[Disagreement, ...]:
        at, content = (
            disagreements.comparable(
                processes,
                disagreements.moments(processes, self._latest, self._sent, known, content=content),
            )
            for content in (False, True)
        )
        found = (
            *disagreements.context_meshes(processes, at, computed.meshes),
            *self._content_differences(computed, content),
        )
        return self._settling.settled(found, time_s=time_s)

    def _content_differences(
        self, computed: _Arrays, groups: tuple[frozenset[int], ...]
    ) -> tuple[Disagreement, ...]:
        # Most snapshots differ from the last one in activity alone.
        kept = self._differences
        if kept is None or kept.computed is not computed or kept.groups != groups:
            merged, meshes = computed.merged, computed.meshes
            found = (
                *disagreements.distribution_differences(merged, groups, meshes),
                *disagreements.model_differences(merged, groups),
                *self._array_differences(computed, groups),
            )
            kept = self._differences = _Differences(computed, groups, found)
        return kept.found

    def _array_differences(
        self, computed: _Arrays, groups: tuple[frozenset[int], ...]
    ) -> Iterable[Disagreement]:
        reporting = self._index.processes
        with_arrays = tuple(group & reporting for group in groups if len(group & reporting) > 1)
        for path in computed.suspects:
            known = computed.source[path]
            one = disagreements.array_difference(known, with_arrays, computed.meshes)
            if one is not None:
                yield one
