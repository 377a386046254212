"""A day's work on one session, from top to bottom: a small GPT, split over data and model, on 4 × 2 devices.

Each step is what somebody typed who lost the session by it, or was left without an answer.
"""

from __future__ import annotations

import re
from pathlib import Path

from nbdist.view.output.entries import WIDGET_MIME
from tests.integration.notebook import Notebook

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


ASLEEP = "%%dist{}\nimport time\nprint('asleep', flush=True)\ntime.sleep(600)"
RIGHT = "%dist losses[:3] == undisturbed(3)"
PROMPT = "process 1 ipdb> "


def test_a_day_of_work_on_one_session(tmp_path: Path) -> None:
    with Day(folder=tmp_path) as day:
        day.begin()
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
        day.get_it_wrong()
        day.end()


class Day(Notebook):
    """The parts of the day, each on the session that the ones before have left."""

    def begin(self) -> None:
        self.good("%load_ext nbdist")
        self.good("%dist_init -n 4 --devices-per-process 2 --platform cpu")
        self.good(MODEL)

    def innocent(self) -> None:
        """The next cell, which has done nothing, is not dropped for what was before it."""
        self.shows("%%dist\n'innocent'", "processes 0–3   'innocent'")

    def answered(self, code: str, *lines: tuple[str, str]) -> str:
        """The text of a cell with a person who types each line at its prompt."""
        request = self.send(code, person=True)
        for prompt, line in lines:
            assert self.asked(request) == prompt
            self.types(line)
        output = self.collect(request)
        assert output.error is None, output.traceback
        return output.text

    def train_in_the_background(self) -> None:
        self.good("%%dist\ntrain(3)")
        request, output = self.background(FOREVER, "round 0")
        number = re.match(r"cell (\d+) in the background on processes 0–3, since", output.text)
        assert number is not None, output.text
        self.shows("%dist_cells", number[1])
        for look in ("%dist_shards params", "%dist_layout params"):
            self.shows(look, "as last reported")
        self.fails("%dist_pull losses", "%sync")
        assert self.complete("%%dist\nparam")[0] == ["params"]
        for stack in ("%dist_stack", "%dist_stack 1"):
            self.shows(stack, "in train")
        self.shows("%dist_status", "running")
        # One that waits behind it is taken back alone.
        behind = rf"queued behind cell {number[1]} \(process 0\)"
        queued, _ = self.follow("%%dist --on 0\nprint('never')", behind)
        assert "never" not in self.stopped(queued).text
        self.collect(request, until="round 5")
        self.shows("%dist_interrupt --stop-at-step", "processes 0–3")
        self.collect(request, until=r"ended after .*: processes 0–3 stopped before step \d+")
        assert "repaired" not in output.text

    def fail_in_the_background(self) -> None:
        request = self.send(
            "%%dist --no-wait --grace 1\nif jax.process_index() == 2: raise OSError('disk full')\ntrain(1)",
            person=True,
        )
        self.collect(request, until="OSError: disk full")
        self.collect(request, until="ended after .*: process 2 raised")
        self.innocent()

    def interrupt_one_of_two(self) -> None:
        cells = [self.background(ASLEEP.format(f" --no-wait --on {p}"), "asleep") for p in (0, 1)]
        (first, one), (second, other) = cells
        numbers = [re.findall(r"cell (\d+) in the background", o.text)[0] for o in (one, other)]
        self.good(f"%dist_cells {numbers[0]} --interrupt")
        self.collect(first, until="ended after .*: process 0 was interrupted")
        self.shows("%dist_cells", "running")
        assert numbers[0] not in self.shows("%dist_interrupt", numbers[1])
        self.collect(second, until="ended after .*: process 1 was interrupted")
        self.innocent()

    def fail_and_go_on(self) -> None:
        failed = self.fails(
            "%%dist --grace 1\nfor k in range(10):\n"
            "    if k == 7 and jax.process_index() == 1: raise ValueError('bad batch')\n"
            "    train(1)",
            "ValueError: bad batch",
        )
        assert "was repaired in" in failed.traceback
        sleeping, _ = self.follow(ASLEEP.format(""), "asleep")
        self.stopped(sleeping)
        self.shows(RIGHT, "True")

    def stop_at_a_breakpoint(self) -> None:
        text = self.answered(
            "%%dist --grace 1\nseen = len(losses)\nif jax.process_index() == 1: breakpoint()\ntrain(1)",
            (PROMPT, "p 'seen', seen - len(losses)"),
            (PROMPT, "c"),
        )
        assert "('seen', 0)" in text
        assert "repaired" not in text
        # Two at once, by the debugger's own name: the lower process is asked first.
        self.answered(
            "%%dist --grace 1\nimport pdb\nif jax.process_index() in (1, 2): pdb.set_trace()\ntrain(1)",
            (PROMPT, "c"),
            ("process 2 ipdb> ", "c"),
        )
        # One that is left open while the kernel is interrupted.
        cell = "%%dist\nif jax.process_index() == 1: breakpoint()\ntrain(1)"
        request = self.send(cell, person=True)
        assert self.asked(request) == PROMPT
        self.stopped(request)
        self.shows(RIGHT, "True")

    def look_after_a_failure(self) -> None:
        self.bad(
            "%%dist --grace 1\ndef load(shard):\n    return {}[shard]\n"
            "if jax.process_index() == 1: load(17)\ntrain(1)"
        )
        text = self.answered("%dist_debug 1", (PROMPT, "p shard"), (PROMPT, "q"))
        assert "ipdb> p shard\n17\n" in text

    def find_nan(self) -> None:
        self.good(
            "%%dist\nbroken = jax.tree.map(lambda x: x, params)\n"
            "bad = np.asarray(jax.device_get(np.zeros((64, 128), 'float32'))); bad[3, 5] = np.nan\n"
            "broken['head']['kernel'] = spread(None, bad)"
        )
        said = self.good("%dist_nan broken").text
        assert re.search(r"head.*f32\[64, 128\]\s+1\s+0", said), said
        self.shows("%dist_nan params", "14 arrays of params")

    def look_at_the_model(self) -> None:
        self.shows("%dist_shards params", "params  14 arrays, ", "×3 identical")
        shown = self.good("%%dist\nparams['head']['kernel'][...]").text
        assert "f32[64, 128]  P('data', 'model') on mesh data=4 × model=2" in shown
        assert re.search(r"min -\S+  mean \S+  max \S+  NaN 0$", shown)
        small = self.good("%%dist\nparams['blocks'][0]['norm']['scale'][...]").text
        assert re.match(r"processes 0–3\nf32\[64\]  P\('model'\) on mesh .*\n\[", small), small
        assert len(re.findall(r"\d\.\d+", small)) == 64 + len(("min", "mean", "max")), small
        hovered = self.inspect("%%dist\nbatch")
        assert re.search(r"min \S+  mean \S+  max \S+", hovered), hovered
        self.shows("%dist_layout params", "per device")
        self.shows("%dist_mesh params", "mesh data=4 × model=2")
        self.shows("%dist_mesh", "garbage collection")
        assert self.bad("%dist_mesh nothing_here").shown == []
        by_bytes = self.good("%dist_shards --by-bytes [params, state, batch]").text
        assert "44 arrays" in by_bytes.splitlines()[0], by_bytes

    def move_values(self) -> None:
        self.good("import numpy as np")
        self.good("%dist_pull state\nassert state[0].mu['head']['kernel'].shape == (64, 128)")
        self.good("%dist_pull k=(params['head']['kernel'] + 1) head=params['head']")
        self.good("assert np.array_equal(k, head['kernel'][...] + 1)")
        self.fails("%dist_pull me=jax.process_index()", "process 0 has 0, process 1 has 1")
        self.good("%dist_pull --each rank=jax.process_index()")
        self.good("assert rank == {p: p for p in range(4)}")
        self.good("class Scale:\n    by = 3\n    def __call__(self, x): return self.by * x")
        self.good("twice, scale = lambda x: 2 * x, Scale()\n%dist_push twice scale")
        self.shows("%dist twice(scale(7))", "processes 0–3   42")
        self.good("x = np.arange(64, dtype=np.float32).reshape(8, 8)")
        self.good("%dist_push x --sharding \"NamedSharding(mesh, P('data'))\"")
        self.shows("%dist float(x.sum())", "processes 0–3   2016.0")
        self.good("sent = x\n%dist_pull x\nassert np.array_equal(x, sent)")

    def show_outputs(self) -> None:
        shards = "%%dist\nparams['head']['kernel'][...].addressable_shards"
        self.shows(shards, *(f"process {p}\n[Shard(" for p in range(4)))
        warned = self.good("%%dist\nimport warnings\nwarnings.warn('beware')").text
        assert re.search(r"cell \d+, line 3: UserWarning: beware", warned), warned
        assert "/tmp/" not in warned
        styled = "from IPython.display import HTML\nHTML(f'<p id=\"a{id(mesh)}\">the same</p>')"
        assert "process 1" not in self.shows(f"%%dist\n{styled}", "processes 0–3")
        bar = self.good("%%dist\nfrom tqdm.auto import tqdm\nfor _ in tqdm(range(20)): pass")
        assert "processes 0–3\n100%" in bar.text, bar.text
        assert len(bar.mime(WIDGET_MIME)) == 1

    def get_it_wrong(self) -> None:
        self.fails(
            "%%dist --grace 1\nclass Odd(Exception):\n    def __str__(self): raise KeyError('no text')\n"
            "if jax.process_index() == 3: raise Odd\ntrain(1)",
            "Process 3 raised Odd",
        )
        self.fails("%%dist\njax.config.update('jax_num_cpu_devices', 8)", "--devices-per-process")
        self.good(
            "%%dist\nodd = params['head']['kernel'][...] if jax.process_index() else 'none yet'"
        )
        self.fails("%dist_pull odd", "differs between the processes")
        self.good("%%dist\nround_ = {}\nround_['self'] = round_")
        self.bad("%dist_shards round_")
        self.bad("%dist_shards nothing_here")
        self.good("%dist_pull --on 0 odd\nassert odd == 'none yet'")
        self.fails("%dist_pull --on 1 odd", "2048 of 8192")
        self.good(
            "%%dist\nclass Shy:\n    @property\n    def weights(self): raise RuntimeError('not today')\n"
            "    def __repr__(self): raise RuntimeError('not today')\nshy = {'w': batch, 'shy': Shy()}"
        )
        self.good("%dist_shards shy")
        self.good("%dist_nan shy")
        assert "running" not in self.good("%dist_status").text.splitlines()[0]

    def end(self) -> None:
        """The session is in step, and has computed what an undisturbed one computes, digit for digit."""
        self.good("%%dist\ntrain(3)")
        self.shows("%dist_recover", "Nothing was changed")
        shown = self.good("%dist len(losses) > 10, losses == undisturbed(len(losses))").text
        assert shown.startswith("processes 0–3   (True, True)"), shown
        self.shows("%dist_shutdown", "4 processes stopped")
        everything = "".join(one.text + one.traceback for one in self._outputs.values())
        # On one machine nobody is called by its host.
        assert "(host " not in everything and "Aborted" not in everything
