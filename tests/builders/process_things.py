"""What a process is beside its names: how each thing is set in a cell, and how it is read."""

from __future__ import annotations

from typing import NamedTuple


class Thing(NamedTuple):
    """One thing.

    Attributes:
      set: Run once, on all processes.
      read: An expression with a plain value that is equal on all processes.
      named: How a message calls it where it could not be brought; None: it always is.
    """

    set: str
    read: str
    named: str | None = None


HELPERS = """
SCALE = 1
TABLE = {'a': 1}
class Config:
    lr = 0.1
    def rate(self):
        return self.lr
def f():
    return 1
"""
"""A module of the user's, `thing_helpers`."""

SETUP = """
import argparse, atexit, builtins, collections.abc, copyreg, decimal, gc, locale, logging, os, random, resource
import signal, socket, sys, threading, time, warnings, dataclasses, multiprocessing, functools
from nbdist.engine.kernel.resident import Resident
import jax, jax.numpy as jnp, numpy as np, optax, flax, matplotlib
sys.path.insert(0, FOLDER)
import thing_helpers

"""

THINGS = {
    "environment": Thing("os.environ['THING'] = 'secret-1'", "os.environ.get('THING')"),
    "environment, deleted": Thing(
        "os.environ.pop('LANG_TO_GO', None)", "'LANG_TO_GO' in os.environ"
    ),
    "working folder": Thing("os.chdir(FOLDER)", "os.getcwd()"),
    "umask": Thing("os.umask(0o027)", "(lambda m: (os.umask(m), m)[1])(os.umask(0o027))"),
    "sys.path": Thing("sys.path.append('/a/path')", "'/a/path' in sys.path, FOLDER in sys.path"),
    "recursion limit": Thing("sys.setrecursionlimit(4321)", "sys.getrecursionlimit()"),
    "switch interval": Thing("sys.setswitchinterval(0.01)", "sys.getswitchinterval()"),
    "digits of integers": Thing("sys.set_int_max_str_digits(5000)", "sys.get_int_max_str_digits()"),
    "arguments": Thing("sys.argv = ['train.py', '--lr', '3']", "sys.argv"),
    "warning filters": Thing(
        "warnings.filterwarnings('error', message='thing')",
        "any(f[0] == 'error' and f[1] is not None and f[1].pattern == 'thing' for f in warnings.filters)",
    ),
    "decimal context": Thing("decimal.getcontext().prec = 7", "decimal.getcontext().prec"),
    "locale": Thing(
        "locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)"
    ),
    "time zone": Thing(
        "os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()", "time.tzname, time.timezone"
    ),
    "garbage collection": Thing("gc.set_threshold(777, 11, 12)", "gc.get_threshold()"),
    "socket timeout": Thing("socket.setdefaulttimeout(12.5)", "socket.getdefaulttimeout()"),
    "limit of a resource": Thing(
        "resource.setrlimit(resource.RLIMIT_CORE, (4096, resource.getrlimit(resource.RLIMIT_CORE)[1]))",
        "resource.getrlimit(resource.RLIMIT_CORE)",
    ),
    "signal handler": Thing(
        "def on_usr1(*_): pass\nsignal.signal(signal.SIGUSR1, on_usr1)",
        "getattr(signal.getsignal(signal.SIGUSR1), '__name__', None)",
    ),
    "start method": Thing(
        "multiprocessing.set_start_method('spawn', force=True)",
        "multiprocessing.get_start_method(allow_none=True)",
    ),
    "log level": Thing(
        "logging.getLogger('thing').setLevel('DEBUG')", "logging.getLogger('thing').level"
    ),
    "root log level": Thing("logging.getLogger().setLevel('INFO')", "logging.getLogger().level"),
    "log propagation": Thing(
        "logging.getLogger('thing').propagate = False", "logging.getLogger('thing').propagate"
    ),
    "logging disabled": Thing("logging.disable(5)", "logging.root.manager.disable"),
    "log handler": Thing(
        "h = logging.StreamHandler(sys.stderr); h.setFormatter(logging.Formatter('%(message)s!')); "
        "logging.getLogger('thing').addHandler(h); del h",
        "[(type(h).__name__, h.formatter._fmt) for h in logging.getLogger('thing').handlers]",
    ),
    "log handler of a file": Thing(
        "logging.getLogger('thing.file').addHandler(logging.FileHandler(FOLDER + '/thing.log', delay=True))",
        "[h.baseFilename for h in logging.getLogger('thing.file').handlers]",
    ),
    "log handler of the user's": Thing(
        "class Mine(logging.Handler):\n    def emit(self, record): pass\n"
        "logging.getLogger('thing.own').addHandler(Mine())",
        "[type(h).__name__ for h in logging.getLogger('thing.own').handlers]",
        named="handlers of logger thing.own",
    ),
    "numpy print options": Thing(
        "np.set_printoptions(precision=3, linewidth=99)", "np.get_printoptions()['precision']"
    ),
    "numpy errors": Thing("np.seterr(divide='raise')", "np.geterr()"),
    "numpy buffer": Thing("np.setbufsize(16384)", "np.getbufsize()"),
    "matplotlib": Thing(
        "matplotlib.rcParams['lines.linewidth'] = 7.5", "matplotlib.rcParams['lines.linewidth']"
    ),
    "jax setting": Thing(
        "jax.config.update('jax_default_matmul_precision', 'highest')",
        "jax.config.jax_default_matmul_precision",
    ),
    "jax log setting": Thing(
        "jax.config.update('jax_traceback_filtering', 'off')", "jax.config.jax_traceback_filtering"
    ),
    "random": Thing("random.seed(7)", "str(random.getstate())[:99]"),
    "numpy random": Thing("np.random.seed(7)", "np.random.get_state()[1][:5].tolist()"),
    "module value": Thing("thing_helpers.SCALE = 3", "thing_helpers.SCALE"),
    "module container": Thing("thing_helpers.TABLE['b'] = 2", "thing_helpers.TABLE"),
    "module function": Thing("def g(): return 5\nthing_helpers.f = g", "thing_helpers.f()"),
    "module class": Thing("thing_helpers.Config.lr = 0.5", "thing_helpers.Config().rate()"),
    "new in a module": Thing("thing_helpers.new = [1, 2]", "getattr(thing_helpers, 'new', None)"),
    "patch of a library": Thing(
        "def slow(x): return x\noptax.identity_of_mine = slow", "hasattr(optax, 'identity_of_mine')"
    ),
    "patch of numpy": Thing(
        "def mine(x): return 9\nnp.sinc = mine", "np.sinc(1)", named="numpy.sinc"
    ),
    "object in a library": Thing(
        "class Marker: value = 5\noptax.marker_of_mine = Marker()",
        "hasattr(optax, 'marker_of_mine') and optax.marker_of_mine.value",
    ),
    "abstract class in a library": Thing(
        "class Abstract(collections.abc.Hashable): value = 6\noptax.abstract_of_mine = Abstract",
        "hasattr(optax, 'abstract_of_mine') and optax.abstract_of_mine.value",
    ),
    "constant of a library": Thing(
        "optax.EPS = 3", "getattr(optax, 'EPS', None)", named="optax.EPS"
    ),
    "constant of a module of Python": Thing(
        "logging.DEBUG = 11", "logging.DEBUG", named="logging.DEBUG"
    ),
    "patch of jax": Thing(
        "def relu_of_mine(x): return x\njax.nn.relu6 = relu_of_mine",
        "jax.nn.relu6.__name__",
        named="jax.nn.relu6",
    ),
    "patch of a library's class": Thing(
        "def area(self): return 4\nargparse.ArgumentParser.area = area",
        "hasattr(argparse.ArgumentParser, 'area')",
        named="argparse.ArgumentParser.area",
    ),
    "builtin": Thing("builtins.everywhere = 5", "getattr(builtins, 'everywhere', None)"),
    "builtin that holds itself": Thing(
        "builtins.ring = [5]\nbuiltins.ring.append(builtins.ring)",
        "hasattr(builtins, 'ring') and builtins.ring[1][1][0]",
    ),
    "builtin that cannot be pickled": Thing(
        "builtins.gate = threading.Lock()", "hasattr(builtins, 'gate')", named="builtins.gate"
    ),
    "object that raises when it is asked": Thing(
        "class Bag(dict):\n    __getattr__ = dict.__getitem__\nbag = Bag(rate=3)",
        "'bag' in globals() and bag.rate",
    ),
    "module value that raises when it is asked": Thing(
        "thing_helpers.bag = Bag(rate=4)",
        "thing_helpers.bag.rate",
    ),
    "module value too long to be written": Thing(
        "thing_helpers.HUGE = 10**9999", "thing_helpers.HUGE.bit_length()"
    ),
    "log handler that was never initialized": Thing(
        "class Unmade(logging.StreamHandler):\n    def __init__(self): self.level = 0\n"
        "logging.getLogger('thing.unmade').addHandler(Unmade())",
        "[type(h).__name__ for h in logging.getLogger('thing.unmade').handlers]",
        named="handlers of logger thing.unmade",
    ),
    "exception hook": Thing(
        "def my_hook(*a): pass\nthreading.excepthook = my_hook", "threading.excepthook.__name__"
    ),
    "copyreg": Thing(
        "class Reduced: pass\ndef reduce_it(one): return Reduced, ()\ncopyreg.pickle(Reduced, reduce_it)",
        "Reduced in copyreg.dispatch_table",
    ),
    "pytree dataclass": Thing(
        "@functools.partial(jax.tree_util.register_dataclass, data_fields=['w'], meta_fields=['n'])\n"
        "@dataclasses.dataclass\nclass Params:\n    w: object\n    n: int\nparams = Params(1.0, 2)",
        "str(jax.tree.map(lambda x: x * 2, params)), len(jax.tree_util.tree_flatten_with_path(params)[0][0][0])",
    ),
    "pytree class": Thing(
        "@jax.tree_util.register_pytree_node_class\nclass Pair:\n"
        "    def __init__(self, a, b): self.a, self.b = a, b\n"
        "    def tree_flatten(self): return (self.a, self.b), None\n"
        "    @classmethod\n    def tree_unflatten(cls, aux, children): return cls(*children)\npair = Pair(1, 2)",
        "jax.tree.leaves(pair)",
    ),
    "pytree of flax": Thing(
        "@flax.struct.dataclass\nclass State:\n    w: object\n    n: int = flax.struct.field(pytree_node=False)\n"
        "state = State(1.0, 2)",
        "jax.tree.leaves(state), flax.serialization.to_state_dict(state)",
    ),
    "train state": Thing(
        "from flax.training import train_state\nclass MyState(train_state.TrainState):\n    extra: object = None\n"
        "mine_state = MyState.create(apply_fn=None, params={'w': 1.0}, tx=optax.sgd(0.1), extra=5.0)",
        "jax.tree.leaves(mine_state)",
    ),
    "autoreload": Thing(
        "%load_ext autoreload\n%autoreload 2",
        "[r._reloader.check_all for r in get_ipython().magics_manager.registry.values() "
        "if hasattr(r, '_reloader')]",
    ),
    "magic": Thing(
        "from IPython.core.magic import register_line_magic\n"
        "@register_line_magic\ndef thing(line): return 'thing ' + line",
        "get_ipython().find_line_magic('thing') is not None and get_ipython().run_line_magic('thing', 'x')",
    ),
    "magics": Thing(
        "from IPython.core.magic import Magics, magics_class, line_magic\n@magics_class\nclass Own(Magics):\n"
        "    @line_magic\n    def owned(self, line): return 'owned'\nget_ipython().register_magics(Own)",
        "get_ipython().find_line_magic('owned') is not None and get_ipython().run_line_magic('owned', '')",
    ),
    "alias": Thing(
        "get_ipython().alias_manager.define_alias('thing_ls', 'ls -l')",
        "get_ipython().alias_manager.is_alias('thing_ls')",
    ),
    "event of cells": Thing(
        "def before_each(*_): pass\nget_ipython().events.register('pre_run_cell', before_each)",
        "[c.__name__ for c in get_ipython().events.callbacks['pre_run_cell'] if c.__name__ == 'before_each']",
    ),
    "input transformer": Thing(
        "def transform(lines): return lines\nget_ipython().input_transformers_cleanup.append(transform)",
        "[getattr(t, '__name__', '') for t in get_ipython().input_transformers_cleanup].count('transform')",
    ),
    "what cells show": Thing(
        "get_ipython().ast_node_interactivity = 'all'", "get_ipython().ast_node_interactivity"
    ),
    "precision": Thing(
        "%precision 3", "get_ipython().display_formatter.formatters['text/plain'].float_precision"
    ),
    "printer of a type": Thing(
        "class Shown: pass\ndef show_it(one, p, cycle): p.text('shown')\n"
        "get_ipython().display_formatter.formatters['text/plain'].for_type(Shown, show_it)",
        "get_ipython().display_formatter.formatters['text/plain'](Shown())",
    ),
    "traceback mode": Thing("%xmode Minimal", "get_ipython().InteractiveTB.mode"),
    "exceptions of the user's": Thing(
        "def on_error(self, kind, error, tb, tb_offset=None): return None\n"
        "class Special(Exception): pass\nget_ipython().set_custom_exc((Special,), on_error)",
        "[e.__name__ for e in get_ipython().custom_exceptions]",
        named="custom exceptions",
    ),
    "thread": Thing(
        "threading.Thread(target=threading.Event().wait, daemon=True, name='loader').start()",
        "'loader' in [t.name for t in threading.enumerate()]",
        named="thread loader",
    ),
    "at the end": Thing(
        "def at_end(): pass\natexit.register(at_end)",
        "[f.__name__ for f, _, _ in Resident.of().state._at_exit.noted if f.__name__ == 'at_end']",
    ),
}
