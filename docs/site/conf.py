"""The documentation as a site: read by Sphinx, beside the pages and the plugins' documentation (tools/docs_site.py)."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "berth.stateful"
copyright = "the berth authors"  # noqa: A001 - Sphinx's name for it
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = "berth.stateful"
# Links to headings, as the repository's own pages have them.
myst_heading_anchors = 4
# A reference that leads nowhere is an error; those to Ansible's own documentation lead to the page `ansible`.
nitpicky = True
exclude_patterns = ["examples"]


def setup(app: Sphinx) -> None:
    """Diagrams stay texts: what draws them would come from somebody else's server."""
    app.add_lexer("mermaid", TextLexer)
