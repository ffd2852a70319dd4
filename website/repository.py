"""Which files of the repository are pages of the site, and the addresses where the others can be read."""

from dataclasses import dataclass
from pathlib import Path

from solutions.grading.addresses import BRANCH, in_colab, is_published, repository_address

PAGES = ("*.md", "docs/**/*.md", "labs/README.md", "labs/messages/*.md", "datasets/README.md")
PAGES += ("solutions/[0-9][0-9]_*/*.ipynb",)
PICTURES = tuple(
    f"{folder}/**/*.{suffix}" for folder in ("docs", "solutions/[0-9][0-9]_*") for suffix in ("png", "svg", "jpg")
)


@dataclass(frozen=True)
class Repository:
    """A checkout in the folder `root`, and the address `url` (no slash at its end) where everybody can read it."""

    root: Path
    url: str

    @classmethod
    def at(cls, root: Path) -> "Repository":
        """Return the checkout in `root`; its address is `Repository` in pyproject.toml's `[project.urls]`.

        Raises:
            ValueError: pyproject.toml names no address.
        """
        return cls(root.resolve(), repository_address(root))

    @property
    def published(self) -> bool:
        """Whether the address is one, not the placeholder of a project that nobody has published yet."""
        return is_published(self.url)

    def files(self, patterns: tuple[str, ...]) -> list[Path]:
        """Return the files that match a pattern, relative to the root, sorted; Jupyter's checkpoints left out."""
        found = {path for pattern in patterns for path in self.root.glob(pattern)}
        return sorted(path.relative_to(self.root) for path in found if ".ipynb_checkpoints" not in path.parts)

    def address(self, path: str) -> str:
        """Return where the file or folder `path` (relative to the root) can be read."""
        kind = "tree" if (self.root / path).is_dir() else "blob"
        return f"{self.url}/{kind}/{BRANCH}/{path}"

    def in_colab(self, notebook: str) -> str:
        """Return what opens `notebook` (relative to the root) in Colab; it reads GitHub's repositories."""
        return in_colab(self.url, notebook)

    def linked(self, page: str, target: str) -> str | None:
        """Return the path, relative to the root, that a link on `page` leads to; None if nothing is there."""
        path = (self.root / page).parent.joinpath(target.split("#")[0]).resolve()
        inside = path.exists() and self.root in path.parents
        return path.relative_to(self.root).as_posix() if inside else None
