"""How Sphinx makes a site of the pages: `make docs`.

The pages are plain Markdown whose links work on a code host, too. The source folder is the repository's root, so that
README.md, CONTRIBUTING.md and CHANGELOG.md are pages of the site like those in docs/.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

import kedge

ROOT = Path(__file__).parents[1]
START = "docs/index"
# What a browser loads by itself from another host: styles, scripts, pictures, fonts.
REMOTE = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']((?:https?:)?//[^"']+)"""
    r"""|<link\b(?![^>]*\brel=["']canonical)[^>]*\bhref=["']((?:https?:)?//[^"']+)"""
    r"""|(?:url\(|@import\s)["' ]*((?:https?:)?//[^"')]+)"""
)

project = "kedge"
author = "the kedge authors"
copyright = "the kedge authors; MIT licence"
version = release = kedge.__version__

extensions = ["myst_parser"]
root_doc = START
# README.md is left out: START takes its place.
include_patterns = ["docs/*.md", "examples/README.md", *(path.name for path in ROOT.glob("*.md"))]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "site",
    "src",
    "tests",
    "benchmarks",
    "README.md",
]  # START replaces README.md
nitpicky = True

myst_heading_anchors = 3  # links to headings by the names that code hosts give them

html_theme = "furo"
html_title = f"kedge {version}"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7fb4ee", "color-brand-content": "#7fb4ee"},
}
pygments_style = "friendly"
pygments_dark_style = "native"


def navigation(page: str) -> str:
    """The start page's lists of links, section by section, as hidden tables of contents."""
    tables = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        links = re.findall(r"^- \[([^\]]+)\]\(([^)#:]+)\.md\)", section, re.MULTILINE)
        entries = [f"{title} <{target}>" for title, target in links]
        if entries:
            options = [":hidden:", f":caption: {section.splitlines()[0]}", ""]
            tables.append("\n".join(["```{toctree}", *options, *entries, "```", ""]))
    return "\n".join(tables)


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """The start page is the only list of the pages; the site's navigation is made of it."""
    if name == START:
        source[0] += "\n" + navigation(source[0])


def refuse_network(app: Sphinx, failure: Exception | None) -> None:
    """The site must be readable without a network, so no page may load anything from one."""
    found = [
        f"{path.name}: {''.join(match.groups(''))}"
        for path in Path(app.outdir).rglob("*")
        if path.suffix in (".html", ".css")
        for match in REMOTE.finditer(path.read_text())
    ]
    if found and not failure:
        raise ExtensionError("the site would load from the network: " + ", ".join(found))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", refuse_network)
