"""Languages: folders of data files, shipped in `languages/` or of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import require_known
from countergen_edit.core.reading import shipped_yaml, text_of, yaml_mapping
from countergen_edit.data.axis import ENGLISH, DoesNotFitError
from countergen_edit.data.text.rules import Rules

_SHIPPED = Path(__file__).with_name("languages")


@dataclass(frozen=True)
class Language:
    """The data of one language; a file is read when it is needed."""

    folder: Path

    def read(self, file: str, *keys: str) -> Any:
        """The content of a YAML file, or the part under some keys; `UserError` for a wrong key.

        `DoesNotFitError` where the language has no such file.
        """
        path = self.folder / f"{file}.yaml"
        if not path.is_file():
            raise DoesNotFitError(f"language {str(self.folder)!r} has no {path.name}")
        content: Any = _content(path)
        for key in keys:
            require_known(f"key of {path}:", key, content)
            content = content[key]
        return content

    def neutral(self) -> Sequence[str]:
        """Neutral texts, one a line."""
        return text_of(self.folder / "neutral.txt").splitlines()

    @cached_property
    def rules(self) -> Rules:
        """Rules of substitution; none where the language has no file of them."""
        has_rules = (self.folder / "substitution.yaml").is_file()
        return Rules(self.read("substitution") if has_rules else {})


@cache
def language_of(name: str = ENGLISH) -> Language:
    """A shipped language by name, or a folder; `UserError` if there is neither."""
    folder = _SHIPPED / name
    if not folder.is_dir():
        folder = Path(name).expanduser()
    if not folder.is_dir():
        require_known("language or folder", name, [p.name for p in sorted(_SHIPPED.iterdir())])
    return Language(folder)


@cache
def _content(path: Path) -> dict[str, Any]:
    is_shipped = path.parent.parent == _SHIPPED
    content: dict[str, Any] = shipped_yaml(path) if is_shipped else yaml_mapping(path)
    return content
