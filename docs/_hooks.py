"""What mkdocs does to each page of the site: it fills in parts that come from other files, as in README.md.

A page has them empty (`<!-- from: keys pool -->`, `<!-- end -->`), so that nothing here has to be kept up to date; see
`mimicpipe.tools.readme_tables`. Links that leave the site, to files of the repository, become plain text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mimicpipe.tools.readme_tables import render

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """As mkdocs calls it, with the page's text."""
    return within_site(render(markdown, ROOT), page.file.src_uri)


def within_site(markdown: str, page: str) -> str:
    """The text without links to files that are not below docs/.

    Args:
        markdown: of a page.
        page: its path below docs/.
    """

    def replace(match: re.Match[str]) -> str:
        text, target = match.groups()
        if "://" in target or not posixpath.normpath(posixpath.join(posixpath.dirname(page), target)).startswith(".."):
            return match[0]
        return text

    return _LINK.sub(replace, markdown)
