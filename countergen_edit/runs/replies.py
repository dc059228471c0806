"""What a model replied to many requests, kept as it comes, so that a killed run loses little.

Comes in: requests and a model. Goes out: its replies, in order. Each batch is kept as a file of its
own, named by all that it depends on but the model, in whose run folder it lies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import digest, whole
from countergen_edit.models import Asked, LanguageModel, generate
from countergen_edit.models.progress import track


@dataclass(frozen=True)
class Writing:
    """How replies are written."""

    max_new_tokens: int
    times: int = 1
    """Replies to each request."""
    do_sample: bool = False
    top_p: float = 1.0
    temperature: float = 1.0

    @property
    def drawing(self) -> dict[str, float]:
        """What `generate` and its price go by."""
        return {key: value for key, value in asdict(self).items() if key != "times"}


@dataclass(frozen=True)
class Requests:
    """Requests of one kind, with their replies as far as a folder holds them.

    Attributes:
        texts: each request once, as the model reads it.
        writing: how it replies.
        folder: where replies are kept.
        batch_size: requests at a time.
        seed: of what is sampled.
    """

    texts: Sequence[str]
    writing: Writing
    folder: Path
    batch_size: int
    seed: int

    def asked(self) -> Asked:
        """What is left to ask, so that the price is known before."""
        left = chain.from_iterable(batch for batch, file in self._batches if not file.is_file())
        return Asked(continued=self._repeated([*left]), **self.writing.drawing)  # type: ignore[arg-type]

    def replies(self, model: LanguageModel, progress: str) -> list[list[str]]:
        """The replies to each request, those that the folder lacks from the model.

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
