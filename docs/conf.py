"""How the site is built: `make docs`, or sphinx-build -W docs docs/_build. A link that leads nowhere ends the build."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # for plain_docstrings

from gossamer import __version__

project = "Gossamer"
author = copyright = "The Gossamer authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "plain_docstrings"]
exclude_patterns = ["_build"]
highlight_language = "text"  # indented blocks are commands and equations
myst_heading_anchors = 3  # links to headings, as forges make them
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"Array": "Array", "Integers": "Integers", "Schedule": "Schedule"}  # not what they stand for
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

smartquotes = False  # what is in quotes is mostly code
html_theme = "furo"
html_title = f"Gossamer {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False


def join_the_project(app: Sphinx, page: str, source: list[str]) -> None:
    """CONTRIBUTING.md and README.md stand beside docs/, where forges look for them; the site has pages for both."""
    source[0] = re.sub(r"\]\((?:\.\./)+CONTRIBUTING\.md", "](/contributing.md", source[0])
    source[0] = re.sub(r"\]\((?:\.\./)+README\.md", "](/index.md", source[0])


def list_parts(app: Sphinx, page: str, source: list[str]) -> None:
    """Studies write pages of several parts; what a study writes knows nothing of the site, so the site lists them."""
    folder = Path(app.srcdir, page).parent
    if page.startswith("results/") and page != "results/README":
        parts = sorted(part.relative_to(folder).with_suffix("") for part in folder.glob("*/README.md"))
        if parts:
            source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(map(str, parts)) + "\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", join_the_project)
    app.connect("source-read", list_parts)
