"""Replies of a model to many requests, kept on disk batch by batch, so that a run can resume."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import digest, whole
from countergen_edit.models import LanguageModel, generate
from countergen_edit.models.progress import track


@dataclass(frozen=True)
class Writing:
    """The settings of replies."""

    max_new_tokens: int
    times: int = 1
    """Replies to each request."""
    do_sample: bool = False
    top_p: float = 1.0
    temperature: float = 1.0

    @property
    def drawing(self) -> dict[str, float]:
        """Arguments of `generate`."""
        return {key: value for key, value in asdict(self).items() if key != "times"}


@dataclass(frozen=True)
class Requests:
    """Requests with replies in a folder.

    Attributes:
        texts: Distinct requests, as the model reads them.
        writing: Settings of the replies.
        folder: Keeps the replies, a file for each batch.
        batch_size: Requests at a time.
        seed: Of the sampling.
    """

    texts: Sequence[str]
    writing: Writing
    folder: Path
    batch_size: int
    seed: int

    def replies(self, model: LanguageModel, progress: str) -> list[list[str]]:
        """The replies to each request, generated if the folder lacks them.

        Raises:
            UserError: the model cannot take a request, or the disk is full.
        """
        left = [(batch, file) for batch, file in self._batches if not file.is_file()]
        for batch, file in track(left, progress):
            made = generate(
                model,
                self._repeated(batch),
                batch_size=self.batch_size,
                seed=self.seed,
                **self.writing.drawing,  # type: ignore[arg-type]
            )
            lines = [json.dumps({"reply": text}, ensure_ascii=False) + "\n" for text in made]
            with whole(file) as temporary:
                temporary.write_text("".join(lines), "utf-8")
        every = [str(line["reply"]) for _, file in self._batches for _, line in json_lines(file)]
        times = self.writing.times
        return [every[i : i + times] for i in range(0, len(every), times)]

    @property
    def _batches(self) -> list[tuple[Sequence[str], Path]]:
        parts = [
            self.texts[i : i + self.batch_size] for i in range(0, len(self.texts), self.batch_size)
        ]
        about = [asdict(self.writing), self.seed]
        return [(part, self.folder / f"{digest([part, about])[:16]}.jsonl") for part in parts]

    def _repeated(self, batch: Sequence[str]) -> tuple[str, ...]:
        return tuple(request for request in batch for _ in range(self.writing.times))
