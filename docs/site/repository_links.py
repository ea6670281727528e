"""Hook of mkdocs: a link out of docs/ leads to a page that shows the repository's file or folder.

The pages of docs/ are read in the repository as well, where `../examples/gpt` is a link that works.
The site has no page for it, so this hook makes one, below `repository/`, and one for each file that
such a page links to in turn.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_FENCES = re.compile(r"(^ *```.*?^ *```)", re.M | re.S)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "bash", ".json": "json", ".ipynb": "json"}
#: What the search shows first: guides and error messages, and last the reference and long tables.
_BOOSTS = {
    "guides": 4,
    "first-job.md": 4,
    "troubleshooting.md": 7,
    "reference": 0.5,
    "bad-input.md": 0.3,
}
_UNLISTED = {"__pycache__", "data"}


def on_config(config: Any) -> Any:
    """Give headings the anchors that GitHub gives them, so that a link is right in both places."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each file and folder of the repository that a page leads to."""
    texts = {page.src_uri: page.content_string for page in files.documentation_pages()}
    waiting = {path for page, text in texts.items() for path in outside(f"docs/{page}", text)}
    made: set[str] = set()
    while waiting:
        path = waiting.pop()
        made.add(path)
        text = shown(path)
        files.append(File.generated(config, page_of(path), content=linked(text, path, config)))
        waiting |= outside(path, text) - made
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn the page's links out of docs/ into links to those pages, and rank it for the search."""
    folder = page.file.src_uri.rpartition("/")[0]
    page.meta.setdefault(
        "search", {"boost": _BOOSTS.get(folder, _BOOSTS.get(page.file.src_uri, 1))}
    )
    if page.file.src_uri.startswith("repository/"):
        page.meta["search"] = {"exclude": True}
        return markdown
    return linked(markdown, f"docs/{page.file.src_uri}", config)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Let the search of pages on the disk run by a script of the site, not of another host."""
    script = os.path.relpath("site/iframe_worker.js", PurePosixPath(page.file.dest_uri).parent)
    return output.replace("https://unpkg.com/iframe-worker/shim", script)


def github_anchor(heading: str, separator: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def outside(page: str, text: str) -> set[str]:
    """Return the paths outside docs/ that a page links to, from the root of the repository."""
    prose = "".join(_FENCES.split(text)[::2])
    paths = (target(page, link) for link, _ in _LINK.findall(prose))
    return {path for path in paths if not path.startswith("docs/") and (ROOT / path).exists()}


def target(page: str, link: str) -> str:
    """Return the path, from the root of the repository, to which a page's link leads."""
    return os.path.normpath(PurePosixPath(page).parent / link)


def linked(text: str, origin: str, config: Any) -> str:
    """Return the text with the links of a repository's file made those of the site."""
    home = PurePosixPath(site_path(origin)).parent

    def replaced(match: re.Match[str]) -> str:
        path = target(origin, match[1])
        if origin.startswith("docs/") and path.startswith("docs/"):
            return match[0]
        return f"]({os.path.relpath(site_path(path), home)}{match[2] or ''})"

    parts = _FENCES.split(text)
    parts[::2] = [_LINK.sub(replaced, prose) for prose in parts[::2]]
    return "".join(parts)


def site_path(path: str) -> str:
    """Return the path of the site's page for a path of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else page_of(path)


def page_of(path: str) -> str:
    """Return the path of the page that shows a file or folder outside docs/."""
    return f"repository/{path.removesuffix('.md')}.md"


def is_unlisted(name: str) -> bool:
    """Return whether a folder's page leaves a name out: what is made there, and hidden files."""
    return name in _UNLISTED or name.startswith(".")


def shown(path: str) -> str:
    """Return the Markdown that shows a file, or what is in a folder."""
    file = ROOT / path
    if file.suffix == ".md":
        return file.read_text()
    if file.is_dir():
        names = sorted(each.name for each in file.iterdir() if not is_unlisted(each.name))
        rows = "".join(f"- [{name}]({PurePosixPath(path).name}/{name})\n" for name in names)
        return f"# {path}/\n\n{rows}"
    language = _LANGUAGES.get(file.suffix, "text")
    return f"# {path}\n\n`````{language}\n{file.read_text()}\n`````\n"
