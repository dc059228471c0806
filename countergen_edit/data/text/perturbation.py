"""Perturbing a continuation, and the filters that a perturbation must pass (FairPair, section 3.3).

Comes in: a text about the source person that begins with a prompt. Goes out: the text about the
target person, or the reason why it is left out. The rule-based perturber changes the protagonist
and leaves other people's gender alone where the text shows that they are other people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.common_sents import PairedPrompt
from countergen_edit.data.forms import DoesNotFitError
from countergen_edit.data.text.grammar import PRONOUNS
from countergen_edit.data.text.persons import words_about
from countergen_edit.data.text.substitution import Substitution

Reason = Literal["start", "source name", "dissimilarity"]
REASONS: tuple[Reason, ...] = ("start", "source name", "dissimilarity")
UNITS = ("neutral", "words", "characters")
"""What the third condition compares; `Filter` says what speaks for each."""
MAX_DISSIMILARITY = 0.15
_WORD = re.compile(r"\w+(?:['’]\w+)*")


Perturber = Callable[[Sequence[str], PairedPrompt], list[str]]
"""p: texts about the source person → one text each about the target person. They need not be right,
for the filters decide."""


@dataclass(frozen=True)
class RulePerturber:
    """p by rules: names, pronouns in their case, titles, kin and gendered nouns of one person.

    Args:
        substitution: The words of the axis.
        source: The group of the protagonist.
        target: The group that the protagonist becomes.
    """

    substitution: Substitution
    source: str
    target: str

    def __call__(self, texts: Sequence[str], prompt: PairedPrompt) -> list[str]:
        """Perturb each text about the person of `prompt`.

        >>> from countergen_edit.data.axis import Group, Axis
        >>> jane = Group("female", {"test": ("Jane",)}, {"subject": "she", "sibling": "sister"})
        >>> john = Group("male", {"test": ("John",)}, {"subject": "he", "sibling": "brother"})
        >>> axis = Axis("gender", {"female": jane, "male": john})
        >>> p = RulePerturber(Substitution(axis, ("female", "male")), "male", "female")
        >>> p(["John called his brother."], PairedPrompt("", "John", "Jane", "John", "Jane"))
        ['Jane called her brother.']
        """
        return [self.perturb(text, prompt.source_name, prompt.target_name) for text in texts]

    def perturb(self, text: str, source_name: str | None, target_name: str | None) -> str:
        """One text; without a name, or where the groups share their pronouns, every word goes."""
        named = (source_name, target_name) if source_name and target_name else None
        substitution = self._named(*named) if named else self._between
        pronoun = self._pronoun
        if source_name is None or pronoun is None:
            return substitution.map_to(text, self.target)
        return substitution.map_words(
            text, lambda words: words_about(words, source_name, side=0, subject=pronoun)
        )

    def _named(self, source_name: str, target_name: str) -> Substitution:
        key = (source_name, target_name)
        if key not in self._cache:
            self._cache[key] = self._between.with_names({source_name: target_name})
        return self._cache[key]

    @cached_property
    def _between(self) -> Substitution:
        return self.substitution.between((self.source, self.target))

    @cached_property
    def _cache(self) -> dict[tuple[str, str], Substitution]:
        return {}  # building a lexicon takes longer than reading a text

    @cached_property
    def _pronoun(self) -> str | None:
        forms = [self.substitution.axis.groups[g].forms for g in (self.source, self.target)]
        subject, other = (form.get("subject") for form in forms)
        return subject if subject != other and subject in PRONOUNS else None


def require_turned(prompts: Sequence[PairedPrompt], rules: RulePerturber) -> None:
    """Refuse prompts of which the rules turn none into its other side: no continuation would pass.

    Raises:
        DoesNotFitError: naming the first, and what the rules make of it.
    """
    turned = [rules([prompt.source], prompt)[0] for prompt in prompts]
    if any(text == prompt.target for text, prompt in zip(turned, prompts, strict=True)):
        return
    raise DoesNotFitError(
        f"fairpair: the rules turn none of {len(prompts)} prompt(s) into its other side: "
        f"{prompts[0].source!r} becomes {turned[0]!r}, not {prompts[0].target!r}; write sides that "
        "differ in words of the axis alone, or set metric.fairpair.perturber={kind:local,…}"
    )


def answer(text: str) -> str:
    """A language model's answer without what it puts around a text.

    >>> answer('\\n"Jane left."\\n')
    'Jane left.'
    """
    text = text.strip().removeprefix("Output:").strip()
    wrapped = len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]
    return text[1:-1] if wrapped else text


def word_list(text: str) -> list[str]:
    """The words of a text in their order, in small letters."""
    return _WORD.findall(text.lower())


def words_of(text: str) -> frozenset[str]:
    """The words of a text in small letters.

    >>> sorted(words_of("She didn't. She DID."))
    ['did', "didn't", 'she']
    """
    return frozenset(word_list(text))


def characters_of(text: str) -> frozenset[str]:
    """The characters of a text, capitals apart, without white space.

    >>> "".join(sorted(characters_of("She did. She DID.")))
    '.DISdehi'
    """
    return frozenset("".join(text.split()))


def dissimilarity(u: frozenset[str], v: frozenset[str]) -> float:
    """Jaccard dissimilarity of two sets of words or characters, 0 where both are empty."""
    return 1 - len(u & v) / len(u | v) if u | v else 0.0


@dataclass(frozen=True)
class Filter:
    """The three conditions on p(g(x)) of section 3.3.

    What the third compares, the paper calls tokens and does not say. Its Table 2 prints the
    similarity of five pairs, 97.5, 96.9, 82.9, 61.5 and 51.2 %. No measure of the printed texts
    gives all five; nearest come

    * `characters`: 100, 96.9, 89.5, 64.0, 58.3. In the last four rows the characters that both
      texts have are as many as in the published fraction (31/32, 34/41, 16/26, 21/41), and
      together they have 0, 3, 1 and 5 less: the texts that were measured held some characters
      more than those in print. This is what we take for the published filter.
    * `words`: 89.9, 88.7, 75.4, 26.3, 9.9. It cannot be the published one: a right perturbation
      of a short text does not pass it ("John works. He can." and "Jane works. She can." share two
      words of six), but nearly all did (Table 1).

    Characters hardly see what is added to a long text: the table's third pair passes as printed,
    and is wrong. `neutral`, ours, therefore compares words and leaves out those of either group, so
    that it sees what the condition is for: text that was added, lost or paraphrased.

    Args:
        substitution: Knows the words of both groups; None counts every word.
        max_dissimilarity: Of the third condition.
        compared: What it compares.

    Raises:
        UserError: `compared` is none of these.
    """

    substitution: Substitution | None
    max_dissimilarity: float = MAX_DISSIMILARITY
    compared: str = "neutral"

    def __post_init__(self) -> None:
        if self.compared not in UNITS:
            raise unknown("unit in compared:", self.compared, UNITS)

    def by(self, unit: str) -> Filter:
        """The filter with another unit."""
        return replace(self, compared=unit)

    def reason(self, original: str, perturbed: str, prompt: PairedPrompt) -> Reason | None:
        """Why a perturbation is left out; None where it passes."""
        if not perturbed.startswith(prompt.target):
            return "start"
        name = prompt.source_name
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", perturbed, re.IGNORECASE):
            return "source name"
        if self.dissimilarity(original, perturbed, prompt) > self.max_dissimilarity:
            return "dissimilarity"
        return None

    def dissimilarity(self, original: str, perturbed: str, prompt: PairedPrompt) -> float:
        """Jaccard dissimilarity of the two texts, in the unit that is compared."""
        return dissimilarity(self._units(original, prompt), self._units(perturbed, prompt))

    def _units(self, text: str, prompt: PairedPrompt) -> frozenset[str]:
        if self.compared == "characters":
            return characters_of(text)
        words = words_of(text)
        if self.substitution is None or self.compared == "words":
            return words
        named = {n.lower() for n in (prompt.source_name, prompt.target_name) if n}
        neutral = {w.split("'")[0].split("’")[0] for w in words} - named
        return frozenset(neutral - self.substitution.lexicon_words - {"a", "an"})


def source_and_target(groups: tuple[str, str], source: str | None) -> tuple[str, str]:
    """Which group is perturbed into which: the second into the first, as the paper's John → Jane.

    Raises:
        UserError: `source` is neither.
    """
    first = groups[1] if source is None else source
    if first not in groups:
        raise UserError(f"source={first!r} is none of the compared groups {list(groups)}")
    return first, groups[1 - groups.index(first)]
