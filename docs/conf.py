"""How Sphinx builds the site; `make docs` runs it, strictly and without the network."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from pygments.lexer import bygroups, inherit
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Operator, Text
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import generate

from nbdist.version import __version__

project = "nbdist"
author = "the nbdist authors"
copyright = "the nbdist authors; BSD 3-Clause"
version = release = __version__
html_title = f"nbdist {__version__}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# A page shows the still picture of a view, which every view has beside it.
suppress_warnings = ["mystnb.unknown_mime_type"]

# `make docs` runs the notebooks that need one machine and nothing but this environment.
nb_execution_mode = "force" if os.environ.get("NBDIST_EXECUTE") else "off"
nb_execution_excludepatterns = [
    f"notebooks/{name}*" for name in ("03_tf_distribute", "04_many_hosts", "06_rehearse", "07_pull")
]
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["nbdist.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
smartquotes = False  # they would turn `--` into a dash
copybutton_selector = (
    "div:not(.highlight-text) > div.highlight > pre"  # what is typed, not what is shown
)

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_attr_annotations = True
napoleon_use_ivar = True
default_role = "code"  # docstrings write names in single backticks
# The build asks no other site, so only what is nbdist's own can be looked up.
nitpick_ignore_regex = [("py:.*", r"(?!nbdist\b).*")]


class CellLexer(PythonLexer):
    """Python with magics; what stands below a `%%dist` is Python, too, which IPython's own lexer leaves plain."""

    name = "Cell"
    aliases = ("ipython3",)
    tokens = {  # noqa: RUF012  # as pygments has it
        "root": [(r"^(%%?)(\w+)(.*\n)", bygroups(Operator, Keyword, Text)), inherit]
    }


def setup(app: Sphinx) -> None:
    """Called by Sphinx: parts that follow from the code are put where a page asks for them."""
    app.add_lexer("ipython3", CellLexer)
    notebooks = Path(__file__).parents[1] / "notebooks"
    if notebooks.exists():
        shutil.copytree(notebooks, Path(app.srcdir) / "notebooks", dirs_exist_ok=True)
    app.connect("source-read", fill)


def fill(app: Sphinx, name: str, source: list[str]) -> None:
    """Replaces each `<!-- generated: NAME -->` of a page by what `generate` makes of the code.

    Links to notebooks lead to their folder in the repository; in the site they lead to pages.
    """
    source[0] = re.sub(r"\(\.\./((?:\.\./)*notebooks/)", r"(\1", generate.filled(source[0]))
