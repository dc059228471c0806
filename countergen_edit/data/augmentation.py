"""What is to change in a text so that it is about another group, and whether a rewriting did that.

Comes in: a text, and an axis's substitution. Goes out: for each group that the text does not show
alone, a `Change`; of a rewriting by anybody, the reason why it is left out, or none; a text with
what was made of it. Nothing is refused: a text that shows no group has no changes.

Sources: CounterGen, section 3.1: f and m turn everybody in a text into one group, and of several
names that may be put for one a name is drawn. FairPair, section 3.3: the conditions `start`,
`source name` and `dissimilarity`, those of `Filter`; what it says of one person is here said of
everybody.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.common_sents import PairedPrompt
from countergen_edit.data.sources.base import first_difference
from countergen_edit.data.sources.inputs import Input
from countergen_edit.data.text.perturbation import REASONS as OF_FAIRPAIR
from countergen_edit.data.text.perturbation import Filter, answer, word_list
from countergen_edit.data.text.substitution import Substitution

NO_GROUP, TWICE = "no group", "twice"
REASONS = (NO_GROUP, TWICE, *OF_FAIRPAIR, "target name", "source words", "target words")
"""Why a text has no pair: it shows no group, it stands in the file before, or its rewriting begins
otherwise, still names somebody of the other group, differs in other words, does not name who was
asked for, or has words of the other group left or none of its own."""
OF_PARAPHRASES = ("unchanged", "length", "people", TWICE)
"""Why a paraphrase is left out: it is the text itself, less than half or more than twice as long,
about others, or there already."""
LONGER = 2.0


@dataclass(frozen=True)
class Change:
    """A text that is to be turned into one group's."""

    text: str
    source: str
    target: str
    names: tuple[tuple[str, str], ...]
    """A name of the source group and the one drawn for it."""
    by_rules: str
    """The text as word substitution has it."""

    @property
    def start(self) -> str:
        """How a rewriting has to begin: with what stands before the first word that changes.

        Where nothing does, with that word.
        """
        before = self.text[: first_difference(self.text, self.by_rules)]
        return before or re.match(r"\S*?(?=[\s,;:.!?]|$)", self.by_rules)[0]  # type: ignore[index]

    def in_words(self, substitution: Substitution) -> str:
        """What is to change, as a request says it: FairPair's words for a name and its group."""
        groups = substitution.axis.groups
        forms = [groups[group].forms.get("person", group) for group in (self.source, self.target)]
        pairs = self.names or ((forms[0], forms[1]),)
        return " and ".join(f"{a} ({self.source}) to {b} ({self.target})" for a, b in pairs)


def changes(text: str, substitution: Substitution, seed: int) -> list[Change]:
    """What makes the text each group's; nothing for a group that is the only one it shows.

    Args:
        text: any text.
        substitution: between the two groups.
        seed: of the draw of names, with the text and the name.
    """
    found = []
    for target, source in (substitution.groups, substitution.groups[::-1]):
        plain = substitution.map_to(text, target)
        if plain != text:
            names = _drawn(text, plain, substitution, (source, target), seed)
            by_rules = substitution.with_names(names).map_to(text, target) if names else plain
            found.append(Change(text, source, target, tuple(names.items()), by_rules))
    return found


def _drawn(
    text: str, plain: str, substitution: Substitution, sides: tuple[str, str], seed: int
) -> dict[str, str]:
    """A name for each that changes: of the same split, so that test names stay test names."""
    source, target = (substitution.axis.groups[group] for group in sides)
    present = set(substitution.names_in(text))
    left = set(substitution.names_in(plain))
    drawn: dict[str, str] = {}
    for name in dict.fromkeys(substitution.names_in(text)):
        partner = substitution.map_to(name, target.name)
        if name in left or partner == name:
            continue
        split = next((s for s in SPLITS if name in source.names.get(s, ())), None)
        others = target.names.get(split, ()) if split else (partner,)
        free = [other for other in others if other not in {*present, *drawn.values()}]
        if free:
            place = generator(seed, "augment", text, name, target.name).integers(len(free))
            drawn[name] = free[place]
    return drawn


@dataclass(frozen=True)
class Conditions:
    """What a rewriting has to meet.

    Args:
        substitution: between the two groups.
        max_dissimilarity: of FairPair's third condition.
        compared: what it compares, a unit of `Filter`.

    Raises:
        UserError: `compared` is no such unit.
    """

    substitution: Substitution
    max_dissimilarity: float
    compared: str

    def __post_init__(self) -> None:
        assert self._filter  # so that a mistake shows at the door

    @property
    def _filter(self) -> Filter:
        return Filter(self.substitution, self.max_dissimilarity, self.compared)

    def reason(self, change: Change, rewritten: str) -> str | None:
        """Why a rewriting is left out, one of `REASONS`; None where it is what was asked for."""
        for names in change.names or ((None, None),):
            prompt = PairedPrompt("", change.text, change.start, *names)
            if reason := self._filter.reason(change.text, rewritten, prompt):
                return reason
        if any(not _named(name, rewritten) for _, name in change.names):
            return "target name"
        if self.substitution.map_to(rewritten, change.target) != rewritten:
            return "source words"
        if self.substitution.map_to(rewritten, change.source) == rewritten:
            return "target words"
        return None

    def reason_of_paraphrase(
        self, text: str, paraphrased: str, others: Collection[str]
    ) -> str | None:
        """Why another template of a text is left out, one of `OF_REWORDINGS`; or None.

        Args:
            text: the text.
            paraphrased: is to say the same.
            others: the templates of the text that there are.
        """
        words, own = word_list(text), word_list(paraphrased)
        if words == own:
            return "unchanged"
        if not len(words) / LONGER <= len(own) <= len(words) * LONGER:
            return "length"
        if self._people(text) != self._people(paraphrased):
            return "people"
        return TWICE if any(own == word_list(other) for other in others) else None

    def _people(self, text: str) -> tuple[frozenset[str], tuple[bool, ...]]:
        shown = tuple(self.substitution.map_to(text, g) != text for g in self.substitution.groups)
        return frozenset(self.substitution.names_in(text)), shown


@dataclass(frozen=True)
class Attempt:
    """What became of a text that was to be turned into a group's."""

    change: Change
    made: str
    reason: str | None
    """Why it is left out."""


@dataclass(frozen=True)
class Case:
    """A text, and what came of it."""

    input: Input
    attempts: tuple[Attempt, ...] = ()
    own_reason: str | None = None
    """Why the text is left out before anything is made of it."""

    @property
    def reason(self) -> str | None:
        """Why there is no pair of it: the first reason there is."""
        return next((a.reason for a in self.attempts if a.reason), self.own_reason)

    def variations(self, groups: tuple[str, str]) -> dict[str, str]:
        """The text as each group would have it; a group that it shows alone has it as it is."""
        made = {attempt.change.target: attempt.made for attempt in self.attempts}
        return {group: made.get(group, self.input.text) for group in groups}


@dataclass(frozen=True)
class Paraphrase:
    """Another template of a text, as a model said it."""

    text: str
    made: str
    reason: str | None
    """Why it is left out."""


def reply(said: str, text: str) -> str:
    """What of a model's reply stands for a text: as many lines, without what it puts round them.

    >>> reply(' Output: "Jane left."\\n\\nInput: John', "John left.")
    'Jane left.'
    """
    lines = said.strip().removeprefix("Output:").strip().split("\n")
    return answer("\n".join(lines[: text.count("\n") + 1]))


def _named(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
