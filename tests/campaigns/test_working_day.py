"""A day's work on one session, from top to bottom: a small GPT, split over data and model, on 4 × 2 devices.

Each step is what somebody typed who lost the session by it, or was left without an answer.
"""

from __future__ import annotations

import re
from pathlib import Path

from nbdist.view.output.entries import WIDGET_MIME
from tests.integration.notebook import Notebook, Output

MODEL = """%%dist
import jax, jax.numpy as jnp, numpy as np, optax, nbdist
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec as P

auto = (jax.sharding.AxisType.Auto,) * 2
mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=auto)

class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(64, rngs=rngs)
        self.qkv = nnx.Linear(64, 192, use_bias=False, rngs=rngs)
        self.out = nnx.Linear(64, 64, use_bias=False, rngs=rngs)

    def __call__(self, x):
        q, k, v = jnp.split(self.qkv(self.norm(x)), 3, axis=-1)
        seen = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / 8.0, -1e9)
        return x + self.out(jax.nn.softmax(scores) @ v)

class GPT(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(128, 64, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(3)])
        self.head = nnx.Linear(64, 128, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def spread(path, value):
    "FSDP over data, tensor parallel over model; vectors whole."
    spec = P("data", "model") if value.ndim == 2 else P()
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), lambda i: value[i])

graph, params = nnx.split(GPT(nnx.Rngs(0)))
params = jax.tree_util.tree_map_with_path(spread, params)
tx = optax.adam(1e-3)
tokens = np.random.default_rng(0).integers(0, 128, (8, 17))
batch = jax.make_array_from_callback(tokens.shape, NamedSharding(mesh, P("data")), lambda i: tokens[i])

@jax.jit
def begin(params):
    return tx.init(params)

@jax.jit
def step(params, state, batch):
    def loss(params):
        logits = nnx.merge(graph, params)(batch[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()
    value, gradients = jax.value_and_grad(loss)(params)
    updates, state = tx.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value

first = params
state = begin(params)
losses = []

def train(count):
    global params, state
    for _ in range(count):
        nbdist.checkpoint()
        *after, value = step(params, state, batch)
        # Waits for the step: what a failure elsewhere keeps from being computed is under no name.
        losses.append(float(value))
        params, state = after

def undisturbed(count):
    "The losses of as many steps from the beginning, with nothing in between."
    inner, opt, found = first, begin(first), []
    for _ in range(count):
        inner, opt, value = step(inner, opt, batch)
        found.append(float(value))
    return found
"""

FOREVER = """%%dist --no-wait
import itertools
for round in itertools.count():
    train(1)
    if round % 5 == 0: print("round", round, flush=True)
"""


def test_a_day_of_work_on_one_session(tmp_path: Path) -> None:
    with Notebook(folder=tmp_path) as notebook:
        day = Day(notebook)
        day.train_in_the_background()
        day.fail_in_the_background()
        day.interrupt_one_of_two()
        day.fail_and_go_on()
        day.stop_at_a_breakpoint()
        day.look_after_a_failure()
        day.find_nan()
        day.look_at_the_model()
        day.move_values()
        day.show_outputs()
        day.ask_for_help()
        day.get_it_wrong()
        day.end()


class Day:
    """The parts of the day, each on the session that the ones before have left."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.shown: list[Output] = []
        self.good("%load_ext nbdist")
        self.good("%dist_init -n 4 --devices-per-process 2 --platform cpu")
        self.good(MODEL)

    def good(self, code: str) -> Output:
        """A cell that must not fail."""
        self.shown.append(self.notebook.good(code))
        return self.shown[-1]

    def bad(self, code: str) -> Output:
        """A cell that must fail."""
        self.shown.append(self.notebook.bad(code))
        return self.shown[-1]

    def look_at_the_model(self) -> None:
        lines = self.good("%dist_shards params").text.splitlines()
        assert re.match(r"params  14 arrays, .* a device needs up to ", lines[0]), lines
        assert any("3 alike" in line for line in lines), lines
        shown = self.good("%%dist\nparams['head']['kernel'][...]").text
        assert "f32[64, 128]  P('data', 'model') on mesh data=4 × model=2" in shown
        assert re.search(r"min -\S+  mean \S+  max \S+  NaN 0$", shown)
        small = self.good("%%dist\nparams['blocks'][0]['norm']['scale'][...]").text
        assert re.match(r"processes 0–3\nf32\[64\]  P\('model'\) on mesh .*\n\[", small), small
        assert len(re.findall(r"\d\.\d+", small)) == 64 + len(("min", "mean", "max")), small
        hovered = self.notebook.inspect("%%dist\nbatch")
        assert re.search(r"min \S+  mean \S+  max \S+", hovered), hovered
        assert "a device needs up to" in self.good("%dist_layout params").text
        meshed = self.good("%dist_mesh params")
        assert "mesh data=4 × model=2" in meshed.text
        assert "with what Python has not collected yet" in self.good("%dist_mesh").text
        nothing = self.notebook.run("%dist_mesh nothing_here")
        assert nothing.error is not None
        assert nothing.shown == []
        by_bytes = self.good("%dist_shards --by-bytes [params, state, batch]").text
        assert "44 arrays" in by_bytes.splitlines()[0], by_bytes

    def train_in_the_background(self) -> None:
        self.good("%%dist\ntrain(3)")
        request = self.notebook.send(FOREVER)
        output = self.notebook.collect(request)
        number = re.match(r"cell (\d+) in the background on processes 0–3, since", output.text)
        assert number is not None, output.text
        self.notebook.collect(request, until="round 0")
        assert f"{number[1]}" in self.good("%dist_cells").text
        assert "as last reported, while process 0" in self.good("%dist_shards params").text
        assert "%sync waits for it" in self.bad("%dist_pull losses").traceback
        assert "as last reported" in self.good("%dist_layout params").text
        assert self.notebook.complete("%%dist\nparam")[0] == ["params"]
        assert "in train" in self.good("%dist_stack").text
        assert "in train" in self.good("%dist_stack 1").text
        assert "running" in self.good("%dist_status").text
        # One that waits behind it is taken back alone.
        queued = self.notebook.send("%%dist --on 0\nprint('never')")
        self.notebook.collect(queued, until=rf"queued behind cell {number[1]} \(process 0\)")
        self.notebook.interrupt()
        taken = self.notebook.collect(queued)
        assert taken.error is not None and "never" not in taken.text
        self.notebook.collect(request, until="round 5")
        said = self.good("%dist_interrupt --stop-at-step").text
        assert "stops before the same step on processes 0–3" in said
        self.notebook.collect(
            request, until=r"ended after .*: processes 0–3 stopped before step \d+"
        )
        assert "in step again" not in output.text

    def interrupt_one_of_two(self) -> None:
        asleep = (
            "%%dist --no-wait --on {}\nimport time\nprint('asleep', flush=True)\ntime.sleep(600)"
        )
        requests = [self.notebook.send(asleep.format(p)) for p in (0, 1)]
        numbers = []
        for request in requests:
            output = self.notebook.collect(request, until="asleep")
            found = re.search(r"cell (\d+) in the background on process", output.text)
            assert found is not None, output.text
            numbers.append(found[1])
        self.good(f"%dist_cells {numbers[0]} --interrupt")
        self.notebook.collect(requests[0], until="ended after .*: process 0 interrupted")
        assert "running" in self.good("%dist_cells").text
        said = self.good("%dist_interrupt").text
        assert numbers[1] in said, said
        assert numbers[0] not in said, said
        self.notebook.collect(requests[1], until="ended after .*: process 1 interrupted")
        assert "processes 0–3   'innocent'" in self.good("%%dist\n'innocent'").text

    def fail_and_go_on(self) -> None:
        failed = self.bad(
            "%%dist --grace 1\nfor k in range(10):\n"
            "    if k == 7 and jax.process_index() == 1: raise ValueError('bad batch')\n"
            "    train(1)"
        )
        assert "ValueError: bad batch" in failed.traceback
        assert "in step again" in failed.traceback + failed.text
        sleeping = self.notebook.send(
            "%%dist\nimport time\nprint('asleep', flush=True)\ntime.sleep(600)"
        )
        self.notebook.collect(sleeping, until="asleep")
        self.notebook.interrupt()
        assert self.notebook.collect(sleeping).error is not None
        assert "True" in self.good("%dist losses[:3] == undisturbed(3)").text

    def fail_in_the_background(self) -> None:
        request = self.notebook.send(
            "%%dist --no-wait --grace 1\nif jax.process_index() == 2: raise OSError('disk full')\ntrain(1)",
            person=True,
        )
        self.notebook.collect(request, until="OSError: disk full")
        self.notebook.collect(request, until="ended after .*: process 2 raised")
        # The next cell, which has done nothing, is not dropped for it.
        assert "processes 0–3   'innocent'" in self.good("%%dist\n'innocent'").text

    def answered(self, code: str, *lines: tuple[str, str]) -> Output:
        """A cell with a person who types each line at its prompt."""
        request = self.notebook.send(code, person=True)
        for prompt, line in lines:
            assert self.notebook.asked(request) == prompt
            self.notebook.types(line)
        return self.notebook.collect(request)

    def stop_at_a_breakpoint(self) -> None:
        output = self.answered(
            "%%dist --grace 1\nseen = len(losses)\nif jax.process_index() == 1: breakpoint()\ntrain(1)",
            ("process 1 ipdb> ", "p 'seen', seen - len(losses)"),
            ("process 1 ipdb> ", "c"),
        )
        assert output.error is None, output.traceback
        assert "('seen', 0)" in output.text
        assert "in step again" not in output.text
        # Two at once, by the debugger's own name: the lower process is asked first.
        output = self.answered(
            "%%dist --grace 1\nimport pdb\nif jax.process_index() in (1, 2): pdb.set_trace()\ntrain(1)",
            ("process 1 ipdb> ", "c"),
            ("process 2 ipdb> ", "c"),
        )
        assert output.error is None, output.traceback
        # One that is left open while the kernel is interrupted.
        request = self.notebook.send(
            "%%dist\nif jax.process_index() == 1: breakpoint()\ntrain(1)", person=True
        )
        assert self.notebook.asked(request) == "process 1 ipdb> "
        self.notebook.interrupt()
        assert self.notebook.collect(request).error is not None
        assert "True" in self.good("%dist losses[:3] == undisturbed(3)").text

    def look_after_a_failure(self) -> None:
        self.bad(
            "%%dist --grace 1\ndef load(shard):\n    return {}[shard]\n"
            "if jax.process_index() == 1: load(17)\ntrain(1)"
        )
        output = self.answered(
            "%dist_debug 1", ("process 1 ipdb> ", "p shard"), ("process 1 ipdb> ", "q")
        )
        assert "ipdb> p shard\n17\n" in output.text

    def move_values(self) -> None:
        self.good("import numpy as np")
        self.good("%dist_pull state")
        self.good("assert state[0].mu['head']['kernel'].shape == (64, 128)")
        self.good("%dist_pull k=(params['head']['kernel'] + 1)")
        self.good(
            "%dist_pull head=params['head']\nassert np.array_equal(k, head['kernel'][...] + 1)"
        )
        refused = self.bad("%dist_pull me=jax.process_index()").traceback
        assert "differs between the processes: process 0 has 0, process 1 has 1" in refused
        self.good(
            "%dist_pull --each rank=jax.process_index()\nassert rank == {p: p for p in range(4)}"
        )
        self.good("class Scale:\n    by = 3\n    def __call__(self, x): return self.by * x")
        self.good("twice, scale = lambda x: 2 * x, Scale()\n%dist_push twice scale")
        assert "processes 0–3   42" in self.good("%dist twice(scale(7))").text
        self.good("x = np.arange(64, dtype=np.float32).reshape(8, 8)")
        self.good("%dist_push x --sharding \"NamedSharding(mesh, P('data'))\"")
        assert "processes 0–3   2016.0" in self.good("%dist float(x.sum())").text
        self.good("sent = x\n%dist_pull x\nassert np.array_equal(x, sent)")

    def show_outputs(self) -> None:
        shown = self.good("%%dist\nparams['head']['kernel'][...].addressable_shards").text
        assert all(f"process {p}\n[Shard(" in shown for p in range(4)), shown
        warned = self.good("%%dist\nimport warnings\nwarnings.warn('beware')").text
        assert re.search(r"cell \d+, line 3: UserWarning: beware", warned), warned
        assert "/tmp/" not in warned
        styled = self.good(
            "%%dist\nfrom IPython.display import HTML\nHTML(f'<p id=\"a{id(mesh)}\">the same</p>')"
        )
        assert "processes 0–3" in styled.text, styled.text
        assert "process 1" not in styled.text
        bar = self.good("%%dist\nfrom tqdm.auto import tqdm\nfor _ in tqdm(range(20)): pass")
        assert "processes 0–3\n100%" in bar.text, bar.text
        assert len(bar.mime(WIDGET_MIME)) == 1

    def ask_for_help(self) -> None:
        assert "--no-wait" in self.good("%%dist --help").text
        assert "--no-wait" in self.notebook.inspect("%%dist?")
        assert "--on" in self.notebook.complete("%%dist --o")[0]
        assert "params" in self.notebook.complete("%dist_pull par")[0]
        here = self.good("%%dist --here\nprint('both')").text
        assert "processes 0–3   both" in here
        assert "notebook" in here
        lines_said = self.bad("%%dist\njax.config.update('jax_num_cpu_devices', 8)").traceback
        assert "--devices-per-process" in lines_said

    def get_it_wrong(self) -> None:
        failed = self.bad(
            "%%dist --grace 1\nclass Odd(Exception):\n    def __str__(self): raise KeyError('no text')\n"
            "if jax.process_index() == 3: raise Odd\ntrain(1)"
        )
        assert "process 3 raised Odd" in failed.traceback
        self.good(
            "%%dist\nodd = params['head']['kernel'][...] if jax.process_index() else 'none yet'"
        )
        assert "differs between the processes" in self.bad("%dist_pull odd").traceback
        self.good("%%dist\nround_ = {}\nround_['self'] = round_")
        self.bad("%dist_shards round_")
        self.bad("%dist_shards nothing_here")
        self.good("%dist_pull --on 0 odd\nassert odd == 'none yet'")
        assert "only 2048 of 8192 elements" in self.bad("%dist_pull --on 1 odd").traceback
        self.good(
            "%%dist\nclass Shy:\n    @property\n    def weights(self): raise RuntimeError('not today')\n"
            "    def __repr__(self): raise RuntimeError('not today')\nshy = {'w': batch, 'shy': Shy()}"
        )
        self.good("%dist_shards shy")
        self.good("%dist_nan shy")
        assert "running" not in self.good("%dist_status").text.splitlines()[0]

    def find_nan(self) -> None:
        self.good(
            "%%dist\nbroken = jax.tree.map(lambda x: x, params)\n"
            "bad = np.asarray(jax.device_get(np.zeros((64, 128), 'float32'))); bad[3, 5] = np.nan\n"
            "broken['head']['kernel'] = spread(None, bad)"
        )
        said = self.good("%dist_nan broken").text
        assert re.search(r"head.*f32\[64, 128\]\s+1\s+0", said), said
        assert "no NaN or Inf in 14 arrays of params" in self.good("%dist_nan params").text

    def end(self) -> None:
        """The session is in step, and has computed what an undisturbed one computes, digit for digit."""
        self.good("%%dist\ntrain(3)")
        assert "checked just now" in self.good("%dist_recover").text
        shown = self.good("%dist len(losses) > 10, losses == undisturbed(len(losses))").text
        assert shown.startswith("processes 0–3   (True, True)"), shown
        assert "4 processes stopped" in self.good("%dist_shutdown").text
        # On one machine nobody is called by its host.
        assert "(host " not in "".join(output.text + output.traceback for output in self.shown)
        assert "Aborted" not in "".join(output.text + output.traceback for output in self.shown)
