from __future__ import annotations

import itertools
import math
import re
from html.parser import HTMLParser

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Axis, Device, Mesh, PerProcess
from nbdist.errors import Notice
from nbdist.view.picture import CELLS, OPACITY, PAGES, fill, still_html, translucent_fills
from nbdist.view.status import DeviceNames
from tests.builders.golden import golden, snapshot
from tests.places import GOLDEN

NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))

# What JupyterLab's sanitizer keeps in a notebook that is not trusted, of what the picture uses.
# Source: packages/apputils/src/sanitizer.ts of JupyterLab 4.
TAGS = {"div", "p", "b", "br", "code", "pre", "table", "tr", "th", "td"}
LENGTH = r"\d+px"
RGBA = r"rgba\(\d{1,3}, \d{1,3}, \d{1,3}, 0\.\d+\)"
STYLES = {
    "margin": rf"({LENGTH} ?)+",
    "padding": rf"({LENGTH} ?)+",
    "border": rf"none|{LENGTH} (solid|dashed) {RGBA}",
    "border-collapse": "separate",
    "border-spacing": LENGTH,
    "background-color": rf"transparent|{RGBA}",
    "text-align": "left",
    "vertical-align": "top",
    "font-weight": "normal",
    "opacity": r"0\.\d+",
}


class Page(HTMLParser):
    """Collects tags, styles and the cells' texts."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.styles, self.cells, self.root = [], set(), [], [], None
        self.attributes = set()
        self.feed(html)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.root = self.root or (tag, dict(attrs))
        self.attributes |= {(tag, name) for name, _ in attrs}
        style = dict(attrs).get("style")
        if style:
            self.styles.append(style)
        if tag == "td":
            self.cells.append([style, ""])
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open:
            self.cells[-1][1] += data


def pages(name):
    session = snapshot(name)
    for path in dict.fromkeys([None, *(array.path for array in session.arrays)]):
        yield Page(still_html(session, path=path, view_id="v1"))


@pytest.mark.parametrize("name", NAMES)
def test_only_what_survives_the_sanitizer_is_used(name):
    for page in pages(name):
        assert page.tags <= TAGS
        assert page.attributes <= {(tag, "style") for tag in TAGS} | {
            ("div", "class"),
            ("div", "data-nbdist-view"),
        }
        for style in page.styles:
            for declaration in style.split("; "):
                prop, _, value = declaration.partition(": ")
                assert re.fullmatch(STYLES[prop], value), declaration


@pytest.mark.parametrize("name", NAMES)
def test_the_picture_of_every_golden_shows_the_slices_jax_gives(name):
    session, expected = snapshot(name), golden(name)["expected"]
    lost = {process.process_id for process in session.processes if process.state == "lost"}
    for one in expected:
        page = Page(still_html(session, path=one["path"], view_id="v1"))
        cells = {text for _, text in page.cells}
        names = DeviceNames(device.key for device in session.devices)
        for key, slices in one["slices"].items():
            process = key.partition(":")[0]
            held = ", ".join(f"{start}:{stop}" for start, stop in slices)
            text = f"[{held}]" if slices else "scalar"
            if int(process) in lost:
                text = "lost"
            head = names.short(key)
            assert any(cell.startswith(head) and text in cell for cell in cells), (key, text)


@pytest.mark.parametrize("name", NAMES)
def test_colour_and_label_agree_exactly_where_devices_hold_the_same_piece(name):
    session = snapshot(name)
    for one in golden(name)["expected"]:
        if sum(array.path == one["path"] for array in session.arrays) > 1 or name == "failed":
            continue
        page = Page(still_html(session, path=one["path"], view_id="v1"))
        names = DeviceNames(device.key for device in session.devices)
        looks = {}
        for style, text in page.cells:
            process, device, label = re.fullmatch(r"(p\d+) · (d\d+)(.*)", text).groups()
            looks[f"{process} · {device}"] = (style, label)
        seen = {}
        for number, piece in enumerate(one["pieces"]):
            for key in piece["devices"]:
                style, label = looks[names.short(key)]
                own = key if label.startswith("own") else ""
                seen.setdefault((style, label, own), set()).add(number)
        assert all(len(numbers) == 1 for numbers in seen.values())
        assert len(seen) == len(one["pieces"])


def test_the_root_names_the_view_it_stands_for():
    page = Page(still_html(snapshot("tour"), path=None, view_id='a"b'))
    assert page.root == ("div", {"class": "nbdist-still", "data-nbdist-view": 'a"b'})


def test_the_first_pieces_have_the_palettes_colours_in_its_order():
    page = Page(still_html(snapshot("tour"), path="params.dense1.kernel", view_id="v"))
    colours = [re.search(r"background-color: (rgba\(.*\))", style)[1] for style, _ in page.cells]
    assert tuple(colours) == translucent_fills()


@pytest.mark.parametrize("count", [1, 8, 9, 64, CELLS])
def test_no_two_shards_have_the_same_colour(count):
    assert len({fill(part, count) for part in range(count)}) == count


def over_page(theme, fills):
    """The still picture's fills as they are seen over a page, red, green and blue of each."""
    channels = [re.findall(r"\d+", fill.rpartition(",")[0]) for fill in fills]
    page = PAGES[theme]
    return [[OPACITY * int(one) + (1 - OPACITY) * page for one in fill] for fill in channels]


def linear(channel):
    share = channel / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(colour):
    return sum(w * linear(c) for w, c in zip((0.2126, 0.7152, 0.0722), colour, strict=True))


def oklab(colour):
    red, green, blue = map(linear, colour)
    long = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    middle = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
    )


@pytest.mark.parametrize(("theme", "ink"), [("light", "212121"), ("dark", "e1e1e1")])
def test_text_on_the_still_pictures_fills_can_be_read_on_pages_of_either_theme(theme, ink):
    text = luminance(bytes.fromhex(ink))
    many = [fill(part, 64) for part in range(64)]
    for one in over_page(theme, [*translucent_fills(), *many]):
        dark, light = sorted((text, luminance(one)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, one


@pytest.mark.parametrize("theme", PAGES)
def test_the_still_pictures_fills_can_be_told_apart_on_pages_of_either_theme(theme):
    # A just noticeable difference in OKLab is about 0.02.
    seen = list(map(oklab, over_page(theme, translucent_fills())))
    for one, other in itertools.combinations(seen, 2):
        assert math.dist(one, other) > 0.05


def test_trouble_is_said_and_lost_devices_have_no_colour():
    session = snapshot("failed")
    html = still_html(session, path="params.dense1.kernel", view_id="v")
    assert (
        "processes 0, 2 waiting in cell 12, line 4; "
        "process 1 failed in cell 12, line 2: ValueError: empty batch; "
        "process 3 lost: ended by signal 9 (SIGKILL)"
    ) in html
    lost = [(style, text) for style, text in Page(html).cells if text.endswith("lost")]
    assert len(lost) == 2
    assert all("dashed" in style and "background" not in style for style, _ in lost)


def test_everything_from_users_is_escaped():
    evil = '<img src=x onerror="alert(1)">'
    session = snapshot("tour")
    array = structs.replace(session.arrays[0], path=evil, dtype=evil)
    process = structs.replace(session.processes[0], error=evil, state="failed", host=evil)
    mesh = session.meshes[0]
    axes = (Axis(name=evil, size=4, type="auto"), mesh.axes[1])
    sharding = structs.replace(array.sharding, spec=((evil,), ("model",)), memory_kind=evil)
    session = structs.replace(
        session,
        processes=(process, *session.processes[1:]),
        devices=tuple(structs.replace(device, platform=evil) for device in session.devices),
        meshes=(structs.replace(mesh, axes=axes),),
        arrays=(structs.replace(array, sharding=sharding),),
        notices=(Notice(level="bad", title=evil, text=evil),),
    )
    page = Page(still_html(session, path=evil, view_id=evil))
    assert "img" not in page.tags
    assert page.attributes <= {(tag, "style") for tag in TAGS} | {
        ("div", "class"),
        ("div", "data-nbdist-view"),
    }


@pytest.mark.parametrize(("rows", "columns", "drawn"), [(250, 4, CELLS), (2, 1000, 1000)])
def test_a_large_mesh_is_drawn_in_whole_rows_and_the_rest_counted(rows, columns, drawn):
    axes = (
        Axis(name="data", size=rows, type="auto"),
        Axis(name="model", size=columns, type="auto"),
    )
    keys = tuple(f"0:{n}" for n in range(rows * columns))
    session = structs.replace(snapshot("empty"), meshes=(Mesh(id="m", axes=axes, devices=keys),))
    html = still_html(session, view_id="v")
    assert len(Page(html).cells) == drawn
    assert f"… and {rows * columns - drawn} more devices" in html


def test_an_empty_session_has_a_picture_too():
    html = still_html(snapshot("empty"), view_id="v")
    assert "<b>starting</b> 4 processes" in html
    assert "<table" not in html


def test_own_arrays_of_many_processes_differ_in_the_process_they_name():
    session = snapshot("per_process")
    devices = tuple(
        Device(
            key=f"{n}:0",
            process_id=n,
            id=0,
            platform="cpu",
            kind="cpu",
            coords=None,
            memory=None,
            live_bytes=0,
        )
        for n in range(20)
    )
    own = PerProcess(devices=tuple(device.key for device in devices), memory_kind=None)
    array = structs.replace(session.arrays[0], sharding=own)
    page = Page(
        still_html(
            structs.replace(session, devices=devices, arrays=(array,)),
            path="local_batch",
            view_id="v",
        )
    )
    assert len({(style, text) for style, text in page.cells}) == 20


def test_the_still_picture_keeps_distribution_progress_and_models():
    html = still_html(snapshot("tensorflow"), view_id="v")
    for text in (
        "strategy MultiWorkerMirroredStrategy  ",
        "checkpoint ckpt-3  loss 0.418  accuracy 0.88  (process 2)",
        "process 0 worker 0, chief running",
        "model  Sequential, 3 variables, ",
    ):
        assert text in html
    one = still_html(snapshot("tensorflow"), path="model.layers[0].bias", view_id="v")
    assert "Sequential" not in one
