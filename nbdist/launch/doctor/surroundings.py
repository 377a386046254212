"""Checks of environment variables that describe a cluster, perhaps another one than this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from nbdist.launch.doctor.finding import Case, Finding
from nbdist.launch.model.framework import framework_named
from nbdist.spelling import start_with

SCHEDULERS = {
    "SLURM_": ("slurm", "Slurm"),
    "PMI": ("mpi", "MPI"),
    "OMPI_": ("mpi", "Open MPI"),
    "TPU_": ("tpu", "a TPU pod"),
    "CLOUD_TPU_": ("tpu", "a TPU pod"),
    "MEGASCALE_": ("tpu", "a TPU pod of several slices"),
    "KUBERNETES_": ("k8s", "Kubernetes"),
    "JAX_COORDINATOR": ("jax", "a JAX cluster"),
    "JAX_LOCAL_DEVICE_IDS": ("jax", "a JAX cluster"),
}
"""By the beginning of a variable's name: the launcher that sets it, and the cluster JAX would take it for."""

TAKEN_UNASKED = "JAX_LOCAL_DEVICE_IDS"
"""JAX reads this variable even if all arguments are given (0.10.2)."""

COMPILED_IN = ("JAX_", "XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that may change what is computed: processes that differ compile different programs."""

LOCAL_WORDS = ("_DIR", "_CACHE", "_LOG", "_DUMP", "_TRACEBACK")
"""Words in the names of variables that concern one machine's files and messages."""

BY_IMPORTS = ("TPU_SKIP_MDS_QUERY", "TPU_ML_PLATFORM", "TPU_ML_PLATFORM_VERSION")
"""JAX and TensorFlow set these when they are imported, wherever that is (`jax._src.cloud_tpu_init`, JAX 0.12;
`tensorflow.python.tpu`, TensorFlow 2.21)."""

OWN = ("JAX_PLATFORMS", "JAX_ENABLE_RECOVERABILITY", "JAX_COORDINATOR", TAKEN_UNASKED)
"""Variables that nbdist sets, or that are reported elsewhere."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def scheduler(case: Case) -> Iterator[Finding]:
    """Find variables that JAX's detection would take for another cluster than the one asked for."""
    on_tpu = case.facts.accelerators.tpus > 0
    for launcher, meaning in dict.fromkeys(SCHEDULERS.values()):
        if launcher == case.needs.launcher or (launcher == "tpu" and on_tpu):
            continue
        # Slurm sets the variables of a PMI for its tasks, and mpirun starts its ranks within an allocation.
        if {launcher, case.needs.launcher} == {"slurm", "mpi"}:
            continue
        prefixes = tuple(p for p, entry in SCHEDULERS.items() if entry == (launcher, meaning))
        found = [
            name
            for name in case.facts.variables
            if name.startswith(prefixes) and name not in BY_IMPORTS
        ]
        if not found:
            continue
        if TAKEN_UNASKED in found:
            effect = f"so that only {TAKEN_UNASKED} misleads it"
            do = start_with("environment", {TAKEN_UNASKED: ""})
        else:
            effect = "so that it is not misled"
            do = f"nothing; before scripts of your own: unset {' '.join(found)}"
        yield case.warning(
            f"{_listed(case, found)} set, as under {meaning}; nbdist passes every argument to JAX and "
            f"switches its detection off, {effect}",
            where=_environment(case),
            do=do,
        )


def tf_config(case: Case) -> Iterator[Finding]:
    """Find a `TF_CONFIG`, which makes a process a member of another cluster, with another role."""
    value = case.facts.variables.get("TF_CONFIG")
    framework = framework_named(case.needs.framework)
    # On the kernel's own machine it is the user's word, which the plan follows or refuses.
    if value is None or (case.examined.local and framework.each_serves):
        return
    progress = case.error if framework.reads_tf_config else case.warning
    yield progress(
        f"TF_CONFIG is set ({value}): TensorFlow and nbdist.keras would take each process for that task",
        where=_environment(case),
        do=f"{case.there('grep -n TF_CONFIG ~/.bashrc ~/.profile ~/.ssh/environment /etc/environment')}, and take "
        "it out there"
        if not case.examined.local
        else "import os; os.environ.pop('TF_CONFIG')",
    )


def differing(case: Case) -> Iterator[Finding]:
    """Find options of the compiler that differ between hosts; the kernel's own go to all of them."""
    kernel = _options(case.kernel.variables)
    sets = [{**_options(facts.variables), **kernel} for facts in case.all_facts]
    own = {**_options(case.facts.variables), **kernel}
    for name in sorted({name for options in sets for name in options}):
        usual, count = Counter(options.get(name) for options in sets).most_common(1)[0]
        if count < len(sets) and own.get(name) != usual:
            yield case.warning(
                f"{name} is {own.get(name, 'not set')} there, and {usual or 'not set'} elsewhere; processes that "
                "compile different programs wait for each other for ever",
                where=_environment(case),
                do=start_with("environment", {name: usual or own[name]}),
            )


def _options(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(COMPILED_IN)
        and not name.startswith(OWN)
        and not any(word in name for word in LOCAL_WORDS)
    }


def proxies(case: Case) -> Iterator[Finding]:
    """Find proxies, through which JAX's and TensorFlow's connections may be led.

    Source: the documentation of `jax.distributed.initialize` says that they can make it time out.
    """
    variables = case.facts.variables
    found = [name for name in variables if name.lower() in PROXIES]
    if not found or not case.spread:
        return
    yield case.warning(
        f"{', '.join(found)} set: processes may look for each other through the proxy, and time out",
        where=_environment(case),
        do=start_with("environment", dict.fromkeys(found, "")),
    )


def _listed(case: Case, names: list[str]) -> str:
    shown = [f"{name}={case.facts.variables[name]}" for name in names[:2]]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(shown)}{more} {'is' if len(names) == 1 else 'are'}"


def _environment(case: Case) -> str:
    if case.examined.local:
        return "environment of this kernel"
    return f"environment that {case.examined.shell.strip()} gives"
