"""What a process has to compare before a cell: complete, the same everywhere, and nothing is started."""

import functools
import os
import subprocess
import sys
import types
from enum import Enum

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from msgspec import structs

from nbdist.contract.cells import Facts, LocalArray
from nbdist.engine import agreement as its
from nbdist.engine.agreement import AgreementFacts
from nbdist.engine.frameworks import frameworks
from nbdist.engine.frameworks.jax import observe as comparer
from nbdist.engine.frameworks.jax.observe import OWN_SETTINGS, setting_text, settings
from nbdist.engine.kernel.calls import SentCall
from nbdist.engine.probe.classes import code_digest


class Shell:
    """As much of IPython's shell as is asked."""

    def __init__(self, **names):
        self.user_ns = names
        self.transform_cell = TransformerManager().transform_cell


def facts(cell, **names):
    return AgreementFacts(Shell(**names), frameworks()).facts(cell)


def described(cell, **names):
    return facts(cell, **names).names


def function(text, name="f"):
    """A function as a cell defines it."""
    namespace = {"__name__": "__main__", "functools": functools, "jax": jax}
    exec(text, namespace)
    return namespace[name]


@pytest.fixture
def spanning(monkeypatch):
    """Arrays on more than one device count as arrays on more than one process."""
    monkeypatch.setattr(
        comparer, "spans_processes", lambda array: len(array.sharding.device_set) > 1
    )


# -- names ---------------------------------------------------------------------------------------


def test_global_arrays_are_described_wherever_a_name_leads_to_them(spanning, mesh):
    w = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", None)))
    found = described("step(state)", state={"params": {"w": w}, "n": 3}, step=len)
    assert list(found.arrays) == ["state['params']['w']"]
    (array,) = found.arrays.values()
    assert (array.shape, array.dtype) == ((8, 4), "float32")
    assert array.sharding.spec == (("data",), ())
    assert array.sharding.mesh in found.meshes
    assert found.names["state"].holds
    assert not found.names["step"].holds


def test_names_that_the_cell_does_not_read_are_not_looked_at(spanning, mesh):
    w = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", None)))
    found = described("x", x=w, w=w)
    assert list(found.arrays) == ["x"]
    assert list(found.names) == ["x"]


def test_local_arrays_do_not_count_and_their_type_does():
    agreement = AgreementFacts(Shell(w=jnp.ones(3)), frameworks())
    other = AgreementFacts(Shell(w=jnp.zeros((2, 2), jnp.int32)), frameworks())
    assert described("w", w=jnp.ones(3)).local == {"w": LocalArray(dtype="float32", shape=(3,))}
    assert agreement.digests("w") == other.digests("w")
    none = AgreementFacts(Shell(w=None), frameworks())
    assert agreement.digests("w")["names"] != none.digests("w")["names"]


def test_an_array_that_is_replaced_by_another_has_another_digest(spanning, mesh):
    def spread(*shape):
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, P("data")))

    shell = Shell(w=spread(8, 4))
    agreement = AgreementFacts(shell, frameworks())
    first = agreement.digests("w")
    assert agreement.digests("w") == first
    shell.user_ns["w"] = spread(8, 2)
    assert agreement.digests("w")["names"] != first["names"]
    shell.user_ns["w"] = spread(8, 4)
    assert agreement.digests("w") == first == AgreementFacts(shell, frameworks()).digests("w")


def test_a_deleted_array_is_said_to_be_deleted():
    w = jnp.ones(3)
    w.delete()
    assert described("w", w=w).local == {"w": None}


def test_a_missing_name_has_no_type_and_a_builtin_has_one():
    found = described("print(w)").names
    assert found["w"].type is None
    assert found["print"].type == "builtin_function_or_method"


def test_a_path_through_modules_is_followed_without_running_anything():
    module = types.ModuleType("settings")
    module.w = jnp.ones(3)
    module.__getattr__ = lambda name: pytest.fail("ran")
    found = described("settings.w.sum(); settings.other", settings=module)
    assert list(found.names) == ["settings", "settings.w"]
    assert found.local == {"settings.w": LocalArray(dtype="float32", shape=(3,))}


def test_no_property_of_a_users_object_is_run():
    class State:
        @property
        def w(self):
            pytest.fail("ran")

    assert described("state.w", state=State()).names["state"].type.endswith("State")


def test_no_array_is_kept_alive(spanning, mesh):
    import gc
    import weakref

    shell = Shell(w=jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("data", None))))
    agreement = AgreementFacts(shell, frameworks())
    assert agreement.facts("w").names.arrays
    kept = weakref.ref(shell.user_ns.pop("w"))
    gc.collect()
    assert kept() is None


# -- keys ----------------------------------------------------------------------------------------


def test_the_values_of_typed_keys_are_compared_also_inside_containers(mesh):
    key = jax.random.key(7)
    found = described("f(key, state)", key=key, state={"rngs": jax.random.split(key, 3)}).keys
    assert found["key"] == "(0, 7)"
    assert found["state['rngs']"].startswith("digest ")
    other = described("f(key)", key=jax.random.key(8)).keys
    assert other == {"key": "(0, 8)"}
    whole = jax.device_put(key, NamedSharding(mesh, P()))
    assert described("f(key)", key=whole).keys == {"key": "(0, 7)"}


def test_keys_in_pieces_on_other_processes_and_ordinary_numbers_are_not_read():
    class Pieces:
        is_fully_addressable = is_fully_replicated = False

    assert not comparer.Keys()._is_there(Pieces())
    assert described("k", k=jax.random.key_data(jax.random.key(7))).keys == {}


def test_a_key_that_is_never_computed_is_not_waited_for(monkeypatch):
    class Pending:
        is_fully_addressable = True

        def is_ready(self):
            return False

    monkeypatch.setattr(comparer, "READY_SECONDS", 0.0)
    assert not comparer.Keys()._is_there(Pending())


# -- code ----------------------------------------------------------------------------------------

STEP = "def f(x, y=1):\n    '''Doubles.'''\n    return [a * 2 for a in x if a in {1, 'b', None}]\n"


@pytest.mark.parametrize(
    "other",
    [
        STEP.replace("* 2", "* 3"),
        STEP.replace("* 2", "/ 2"),
        STEP.replace("'b'", "'c'"),
        STEP.replace("in x", "in y"),
        STEP.replace("[a * 2", "[max(a, 2)"),
    ],
)
def test_other_code_has_another_digest(other):
    assert code_digest(function(STEP)) == code_digest(function("\n\n" + STEP))
    assert code_digest(function(other)) != code_digest(function(STEP))


def test_a_call_of_another_function_is_other_code():
    first, second = (function(f"def f(x): return {name}(x)") for name in ("min", "max"))
    assert code_digest(first) != code_digest(second)


@pytest.mark.parametrize(
    "wrap",
    [
        "g = jax.jit({})",
        "g = jax.jit(jax.grad({}))",
        "g = functools.partial({}, 1)",
        "g = functools.cache({})",
        "@functools.wraps({0})\ndef g(*a): return {0}(*a)",
        "class g:\n    m = {}",
        "class g:\n    m = staticmethod({})",
        "class base:\n    m = {}\nclass g(base): ...",
        "class c:\n    m = {}\ng = c()",
        "class c:\n    m = {}\ng = c().m",
    ],
)
def test_code_is_found_behind_what_wraps_it(wrap):
    first, second = STEP, STEP.replace("* 2", "* 3")
    found = [function(text + wrap.format("f"), "g") for text in (first, first, second)]
    one, same, other = map(code_digest, found)
    assert one is not None
    assert one == same
    assert one != other


@pytest.mark.parametrize("value", [np.mean, 3, len, jax.jit(np.mean), keras.Model])
def test_code_of_packages_is_not_compared(value):
    assert code_digest(value) is None


# -- environment ---------------------------------------------------------------------------------


def test_versions_are_those_of_imported_packages():
    found = its.software(["jax", "jaxlib", "keras", "tensorflow"])
    assert found["jax"] == jax.__version__
    assert found["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert "tensorflow" not in found


def test_flags_are_compared_one_by_one_but_those_of_one_process():
    found = its.variables(
        {
            "XLA_FLAGS": "--xla_a=1 --xla_dump_to=/tmp/0 --xla_b --xla_a=2 "
            "--xla_force_host_platform_device_count=8",
            "LIBTPU_INIT_ARGS": "--c='d e'",
            "OTHER": "--x",
        }
    )
    assert found == {
        "XLA_FLAGS --xla_a": "2",
        "XLA_FLAGS --xla_b": "set",
        "LIBTPU_INIT_ARGS --c": "d e",
    }
    assert its.variables({"XLA_FLAGS": "--a='open"}) == {"XLA_FLAGS --a": "'open"}


def test_settings_of_one_process_are_names_of_jax_and_not_compared():
    found = settings()
    assert found["jax_enable_x64"] == "False"
    assert found.keys().isdisjoint(OWN_SETTINGS)
    assert found.keys() | OWN_SETTINGS >= jax.config.values.keys()


def test_what_this_thread_alone_has_set_counts():
    with jax.enable_x64(True):
        assert settings()["jax_enable_x64"] == "True"


def test_a_setting_is_text_without_addresses():
    class Mode(Enum):
        FAST = 1

    text = setting_text
    assert text(Mode.FAST) == "FAST"
    assert text(jax.devices()[3]) == "a cpu device"
    assert text((1, "a", object())) == "(1, 'a', a object)"


# -- meshes and distributions --------------------------------------------------------------------


def test_the_mesh_in_context_is_described(mesh):
    assert facts("1").mesh is None
    with jax.set_mesh(mesh):
        assert [axis.size for axis in facts("1").mesh.axes] == [4, 2]


def test_the_distribution_of_keras_is_described():
    assert facts("1").distribution is None
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    try:
        found = facts("1").distribution
    finally:
        keras.distribution.set_distribution(None)
    assert (found.kind, found.auto_shard) == ("DataParallel", False)
    assert len(found.mesh.devices) == 8


# -- the whole -----------------------------------------------------------------------------------


def test_a_topic_alone_can_be_asked_for():
    assert AgreementFacts(Shell(), frameworks()).facts("1", ["mesh"]) == Facts()


def test_the_cells_text_is_what_ipython_makes_of_it():
    shell = Shell()
    before = AgreementFacts(shell, frameworks()).facts("!ls").cell
    shell.transform_cell = lambda cell: cell
    assert AgreementFacts(shell, frameworks()).facts("!ls").cell != before


def test_a_cell_that_ipython_refuses_is_compared_as_it_is():
    def refuse(cell):
        raise SyntaxError(cell)

    shell = Shell()
    shell.transform_cell = refuse
    first, second = (AgreementFacts(shell, frameworks()).facts(cell).cell for cell in ("w", "v"))
    assert first != second


def test_the_call_answers_digests_first_and_facts_of_topics(monkeypatch):
    import json

    from nbdist.engine.kernel import resident

    described = AgreementFacts(Shell(w=3), frameworks())
    stand_in = types.SimpleNamespace(agreement=lambda: described)
    monkeypatch.setattr(resident.Resident, "of", classmethod(lambda cls: stand_in))
    (text,) = SentCall("agreement", json.dumps({"code": "w", "topics": None}))().buffers
    assert set(json.loads(text)["ok"]["digests"]) == {topic.name for topic in structs.fields(Facts)}
    (text,) = SentCall("agreement", json.dumps({"code": "w", "topics": ["names"]}))().buffers
    assert json.loads(text)["ok"]["facts"]["names"]["names"]["w"]["type"] == "int"


FRESH = """
import json
import jax, optax, flax.linen as nn
from IPython.core.inputtransformer2 import TransformerManager
from jax._src import xla_bridge
from nbdist.engine.agreement import AgreementFacts as Agreement
from nbdist.engine.frameworks import frameworks

class Shell:
    user_ns = globals()
    transform_cell = TransformerManager().transform_cell

class Net(nn.Module):
    width: int = 3
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x) if x in {"a", "b", "c", 1, 2} else x

def step(x, *, of=frozenset("abc")):
    return [y for y in x if y in {"a", "b", "c"}]

net, fast, optimizer = Net(), jax.jit(step), optax.adam(1e-3)
found = Agreement(Shell(), frameworks()).digests("fast(net, optimizer, step, Net)")
assert not xla_bridge.backends_are_initialized()
print(json.dumps(found))
"""


def fresh(seed):
    done = subprocess.run(
        [sys.executable, "-c", FRESH],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_that_did_the_same_agree_and_no_back_end_is_started():
    assert fresh("1") == fresh("2")


WITHOUT = """
import sys
from IPython.core.inputtransformer2 import TransformerManager
from nbdist.engine.agreement import AgreementFacts as Agreement
from nbdist.engine.frameworks import frameworks

class Shell:
    user_ns = {"w": [1, 2], "step": lambda x: x}
    transform_cell = TransformerManager().transform_cell

before = {"jax", "keras", "numpy", "tensorflow"} & set(sys.modules)
found = Agreement(Shell(), frameworks()).facts("step(w)")
assert found.settings is found.mesh is found.distribution is None
assert sorted(found.names.names) == ["step", "w"]
assert {"jax", "keras", "numpy", "tensorflow"} & set(sys.modules) == before
assert "jax" not in before
print("nothing imported")
"""


def test_no_framework_is_imported():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "nothing imported", done.stderr
