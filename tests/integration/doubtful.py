"""Values that each process has for itself, one of each kind, and how a process says what it has of each."""

from __future__ import annotations

SETUP = """
import array, bisect, collections, dataclasses, datetime, decimal, enum, fractions, functools, io, itertools
import operator, pathlib, queue, random, re, string, types, uuid
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
me = jax.process_index()
mesh = jax.make_mesh((jax.device_count(),), ("d",))

@dataclasses.dataclass
class Config:
    seed: int
    names: list

@dataclasses.dataclass(frozen=True)
class Frozen:
    seed: int

class Slots:
    __slots__ = ("seed",)
    def __init__(self, seed):
        self.seed = seed

class Loader:
    def __init__(self, rows):
        self.rows = rows
        self.at = 0
    def take(self):
        self.at += 1
        return self.rows[self.at]

class Point(collections.namedtuple("Point", "x y")):
    pass

class Rows(list):
    pass

class Table(dict):
    pass

def folded(k):
    with jax.set_mesh(mesh):
        return jax.random.fold_in(jax.random.key(0), k)

def batches():
    for n in range(20):
        yield n

def adder(k):
    return lambda x: x + k

def counter(start):
    n = start
    def step():
        nonlocal n
        n += 1
        return n
    return step

def with_default(k):
    def f(x, k=k):
        return x + k
    return f

def with_keyword(k):
    def f(x, *, k=k):
        return x + k
    return f

def with_attribute(k):
    def f(x):
        return x + f.k
    f.k = k
    return f

def class_with(k):
    class Own:
        scale = k
        def use(self, x, k=k):
            return x + k
    return Own

def long_list(k):
    found = list(range(2000))
    found[777] = k
    return found

def one_of(n, k):
    found = np.zeros(n)
    found[n // 3] = k
    return found
"""

KINDS: dict[str, tuple[str, str]] = {
    "an_int": ("100 + me", "x"),
    "a_float": ("0.5 + me", "x"),
    "a_bool": ("me == 1", "x"),
    "a_complex": ("complex(me, 1)", "x"),
    "a_str": ("f'shard-{me}'", "x"),
    "a_long_str": ("'a' * 5000 + str(me)", "x"),
    "some_bytes": ("bytes([me])", "x"),
    "long_bytes": ("b'a' * 5000 + bytes([me])", "x"),
    "a_bytearray": ("bytearray([me])", "x"),
    "none_or_not": ("None if me == 1 else 'lead'", "x"),
    "a_list": ("[me, 2]", "x"),
    "a_long_list": ("long_list(-1 - me)", "x"),
    "deep": ("[[[[[[me]]]]]]", "x"),
    "a_tuple": ("(1, me)", "x"),
    "a_set": ("{1, 100 + me}", "sorted(x)"),
    "a_frozenset": ("frozenset({1, 100 + me})", "sorted(x)"),
    "a_dict": ("{'rank': me}", "x"),
    "a_long_dict": ("{n: n if n != 500 else me for n in range(1000)}", "x"),
    "an_ordered": ("collections.OrderedDict(rank=me)", "x"),
    "a_default": ("collections.defaultdict(int, {'rank': me})", "x['rank']"),
    "a_counter": ("collections.Counter({'a': 7 + me})", "x"),
    "a_deque": ("collections.deque([me, 1])", "x"),
    "a_chain": ("collections.ChainMap({'rank': me}, {})", "x['rank']"),
    "a_list_of_own": ("Rows([me])", "x"),
    "a_dict_of_own": ("Table(rank=me)", "x"),
    "a_named_tuple": ("Point(me, 2)", "x"),
    "a_range": ("range(me * 10, me * 10 + 10)", "x"),
    "a_slice": ("slice(me, 7)", "x"),
    "an_array": ("array.array('i', [me, 2])", "x"),
    "a_memoryview": ("memoryview(bytes([me, 2]))", "bytes(x)"),
    "an_iterator": ("itertools.islice(iter(list(range(9))), me, None)", "next(x)"),
    "a_list_iterator": ("iter([me, 5])", "next(x)"),
    "a_count": ("itertools.count(me * 10)", "repr(x)"),
    "a_generator": ("(n + me for n in range(3))", "next(x)"),
    "an_enumerate": ("enumerate([5 + me, 6])", "next(x)"),
    "a_zip": ("zip([me], [2])", "next(x)"),
    "a_random": ("random.Random(me)", "x.getstate()[1][:3]"),
    "a_generator_of_numpy": ("np.random.default_rng(me)", "str(x.bit_generator.state)"),
    "a_state_of_numpy": ("np.random.RandomState(me)", "x.get_state()[1][:3].tolist()"),
    "a_seed": ("np.random.SeedSequence(me)", "x.entropy"),
    "a_scalar": ("np.float32(me + 0.5)", "float(x)"),
    "an_integer_of_numpy": ("np.int64(40 + me)", "int(x)"),
    "a_small_array": ("np.arange(4) + me", "x.tolist()"),
    "a_medium_array": ("one_of(100_000, me)", "x[33_333]"),
    "a_large_array": ("one_of(1_000_000, me)", "x[333_333]"),
    "an_array_of_strings": ("np.array(['a', str(me)])", "x.tolist()"),
    "an_array_of_objects": ("np.array([None, me], dtype=object)", "x.tolist()"),
    "a_structured": ("np.array([(me, 1.0)], dtype=[('a', int), ('b', float)])", "x.tolist()"),
    "a_masked": ("np.ma.array([me, 2], mask=[False, True])", "x.tolist()"),
    "a_record": ("np.rec.array([(me, 1.0)], dtype=[('a', int), ('b', float)])", "x.tolist()"),
    "a_view": ("(np.arange(10) + me)[2:5]", "x.tolist()"),
    "a_date": ("np.datetime64('2026-01-01') + np.timedelta64(me, 'D')", "str(x)"),
    "a_dataclass": ("Config(me, ['a'])", "x"),
    "a_frozen": ("Frozen(me)", "x"),
    "with_slots": ("Slots(me)", "x.seed"),
    "a_loader": ("Loader([me * 10 + n for n in range(5)])", "x.rows"),
    "a_loader_of_arrays": ("Loader(np.arange(5) + me)", "x.rows.tolist()"),
    "a_namespace": ("types.SimpleNamespace(rank=me)", "x"),
    "a_proxy": ("types.MappingProxyType({'rank': me})", "dict(x)"),
    "a_path": ("pathlib.Path(f'/data/{me}')", "x"),
    "a_pattern": ("re.compile(f'shard-{me}')", "x.pattern"),
    "a_decimal": ("decimal.Decimal(me) / 3", "x"),
    "a_fraction": ("fractions.Fraction(me + 1, 3)", "x"),
    "a_moment": ("datetime.datetime(2026, 1, 1 + me)", "x"),
    "a_duration": ("datetime.timedelta(days=me)", "x"),
    "a_uuid": ("uuid.UUID(int=me)", "x"),
    "an_enum": ("enum.Enum('Role', 'LEAD OTHER THIRD')(me + 1)", "x.value"),
    "a_buffer": ("io.BytesIO(bytes([me]))", "x.getvalue()"),
    "a_text_buffer": ("io.StringIO(str(me))", "x.getvalue()"),
    "a_closure": ("adder(me)", "x(0)"),
    "a_counting_closure": ("counter(me * 10)", "x()"),
    "a_default_argument": ("with_default(me)", "x(0)"),
    "a_keyword_default": ("with_keyword(me)", "x(0)"),
    "a_function_attribute": ("with_attribute(me)", "x(0)"),
    "a_lambda": ("lambda x, k=me: x + k", "x(0)"),
    "a_partial": ("functools.partial(operator.add, me)", "x(0)"),
    "a_partial_method": ("functools.partial(Loader([me, me]).take)", "x()"),
    "a_bound_method": ("Loader([me] * 3).take", "x()"),
    "a_builtin_method": ("[me, 1].__getitem__", "x(0)"),
    "an_item_getter": ("operator.itemgetter(me)", "x('abcd')"),
    "a_cached": ("functools.lru_cache(adder(me))", "x(0)"),
    "a_class": ("class_with(me)", "(x.scale, x().use(0))"),
    "an_object_of_it": ("class_with(me)()", "x.use(0)"),
    "a_jitted_closure": ("jax.jit(adder(me))", "x.__wrapped__(0)"),
    "a_jitted_method": ("jax.jit(Config(me, []).__eq__)", "x.__wrapped__.__self__.seed"),
    "a_tree_partial": ("jax.tree_util.Partial(operator.add, me)", "x(0)"),
    "a_key": ("jax.random.key(me)", "jax.random.key_data(x).tolist()"),
    "an_old_key": ("jax.random.PRNGKey(me)", "x.tolist()"),
    "a_local_array": ("jax.device_put(np.arange(3.0) + me)", "x.tolist()"),
    "a_tree": ("{'w': [jax.device_put(np.arange(3.0) + me)]}", "x['w'][0].tolist()"),
    "a_replica": (
        "jax.make_array_from_callback((2,), NamedSharding(mesh, P()), "
        "lambda i: (np.arange(2.0) + me)[i])",
        "x.addressable_shards[0].data.tolist()",
    ),
    "a_global_key": (
        "jax.make_array_from_callback((2,), NamedSharding(mesh, P()), "
        "lambda i: np.array([0, me], np.uint32)[i])",
        "x.addressable_shards[0].data.tolist()",
    ),
    "a_folded_key": (
        "folded(me)",
        "jax.random.key_data(x).addressable_shards[0].data.tolist()",
    ),
    "an_exception": ("ValueError(f'shard {me}')", "str(x)"),
    "itself": ("(lambda a: a.append(a) or a)([me])", "x[0]"),
}
"""By name: an expression in which `me` is the number of the process, and what says what `x` is."""

SAME: dict[str, str] = {
    "same_int": "3",
    "same_rate": "1e-3",
    "same_list": "[1, 'a', {'k': (2.0, None)}]",
    "same_array": "np.arange(100_000)",
    "same_config": "Config(1, ['a'])",
    "same_function": "adder(3)",
    "same_set": "{'a', 'b'}",
    "same_path": "pathlib.Path('/data')",
    "same_class": "class_with(3)",
    "same_jitted": "jax.jit(adder(3))",
    "same_loader": "Loader(list(range(20)))",
    "same_folded": "folded(7)",
    "same_global": "jax.device_put(np.arange(8.0), NamedSharding(mesh, P()))",
}
"""What all processes have alike."""
