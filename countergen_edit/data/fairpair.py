"""FairPair's prompts, its perturbation of continuations, and the filters (sections 3.1 and 3.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import text_of
from countergen_edit.data.axis import DoesNotFitError, Group
from countergen_edit.data.counterfactual import Sample
from countergen_edit.data.templates import fill
from countergen_edit.data.text.grammar import pronouns_of, with_article
from countergen_edit.data.text.persons import words_about
from countergen_edit.data.text.substitution import Substitution

COMMON_SENTS = "{name} is a/an {person}, working as {occupation}."
"""The template of Common Sents."""
OCCUPATIONS: tuple[str, ...] = tuple(text_of(Path(__file__).with_name("occupations.txt")).split())
"""The sixty of the paper's Appendix A, from Winogender (Rudinger et al. 2018), in its order."""


@dataclass(frozen=True)
class PairedPrompt:
    """A prompt x about the source person, and its perturbation p(x) about the target person."""

    label: str
    """Its label in tables: the occupation, or the template of the user's prompt."""
    source: str
    target: str
    source_name: str | None
    target_name: str | None


def chosen_occupations(occupations: int | Sequence[str]) -> tuple[str, ...]:
    """Occupations by name, or a number of the sixty, evenly spaced.

    >>> chosen_occupations(4)
    ('technician', 'librarian', 'lawyer', 'baker')
    """
    if isinstance(occupations, int) and 1 <= occupations <= len(OCCUPATIONS):
        return OCCUPATIONS[:: len(OCCUPATIONS) // occupations][:occupations]
    if isinstance(occupations, int) or not occupations:
        raise UserError(
            f"occupations={occupations}: name them, or take 1 to {len(OCCUPATIONS)} of the paper's"
        )
    return tuple(occupations)


def with_occupations(templates: Sequence[str], occupations: Sequence[str]) -> list[tuple[str, str]]:
    """Every template, such as `{name} works as {occupation}.`, with every occupation, its label.

    >>> with_occupations(["{name} is {occupation}."], ["actor"])
    [('actor', '{name} is an actor.')]
    """
    if len(set(templates)) < len(templates):
        raise UserError(f"templates {[*templates]} hold one twice: the spread would be too small")
    for text in templates:
        if "{occupation}" not in text:
            raise UserError(f"template {text!r} has no slot {{occupation}}, which each needs")
    return [(o, t.replace("{occupation}", with_article(o))) for t in templates for o in occupations]


def paired_prompts(
    labelled: Sequence[tuple[str, str]], source: Group, target: Group, names: tuple[str, str]
) -> tuple[PairedPrompt, ...]:
    """Labelled templates about a person of each group."""
    if not labelled:
        raise UserError("no prompts: give texts such as '{name} went to the bank.'")
    prompts = []
    for label, template in labelled:
        x, _ = fill(template, source, names[0])
        perturbed, _ = fill(template, target, names[1])
        if x == perturbed:
            raise UserError(
                f"prompt {x!r} is the same for both groups: give the two people two names"
            )
        prompts.append(PairedPrompt(label, x, perturbed, *names))
    return tuple(prompts)


def paired_samples(samples: Sequence[Sample], groups: tuple[str, str]) -> tuple[PairedPrompt, ...]:
    """Counterfactual samples as prompts, one for each pair of variations."""
    pairs = (pair for s in samples for pair in zip(*map(s.of, groups), strict=True))
    prompts = {
        (x.text, y.text): PairedPrompt(x.text, x.text, y.text, x.name, y.name) for x, y in pairs
    }
    return tuple(prompts.values())


Perturber = Callable[[Sequence[str], PairedPrompt], list[str]]
"""p: texts about the source person → texts about the target person, which the filters check."""


@dataclass(frozen=True)
class RulePerturber:
    """p by rules: names, pronouns in their case, titles, kin and gendered nouns of one person.

    The gender of other people stays where the text shows that they are other people.
    """

    substitution: Substitution
    source: str
    target: str
    _known: dict[tuple[str | None, str | None], Substitution] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Building a lexicon takes longer than reading a text."""

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
        """One text; every word is swapped without a name, or where the groups share pronouns."""
        key = (source_name, target_name)
        if key not in self._known:
            words = self.substitution.between((self.source, self.target))
            named = {source_name: target_name} if source_name and target_name else words.own_names
            self._known[key] = words.with_names(named)
        swap = self._known[key]
        subject, other = (swap.axis.groups[g].forms.get("subject") for g in swap.groups)
        if source_name is None or subject == other or subject not in pronouns_of(swap.rules):
            return swap.map_to(text, self.target)
        return swap.map_words(text, lambda words: words_about(words, source_name, str(subject)))


def require_perturbable(prompts: Sequence[PairedPrompt], rules: RulePerturber) -> None:
    """Refuse prompts of which the rules perturb none correctly, as no continuation would pass."""
    perturbed = [rules([prompt.source], prompt)[0] for prompt in prompts]
    if any(text == prompt.target for text, prompt in zip(perturbed, prompts, strict=True)):
        return
    raise DoesNotFitError(
        f"fairpair: the rules turn none of {len(prompts)} prompt(s) into its other side: "
        f"{prompts[0].source!r} becomes {perturbed[0]!r}, not {prompts[0].target!r}; write sides "
        "that differ in words of the axis alone, or a metric.fairpair.perturber of your own"
    )


Reason = Literal["start", "source name", "dissimilarity"]
REASONS: tuple[Reason, ...] = get_args(Reason)
FILTER_UNITS = ("neutral", "words", "characters")
"""Units of the third condition; see `Filter`."""
MAX_DISSIMILARITY = 0.15


def word_list(text: str) -> list[str]:
    """The words of a text in their order, in lower case."""
    return re.findall(r"\w+(?:['’]\w+)*", text.lower())


def word_set(text: str) -> frozenset[str]:
    """The set of words of a text in lower case.

    >>> sorted(word_set("She didn't. She DID."))
    ['did', "didn't", 'she']
    """
    return frozenset(word_list(text))


def characters_of(text: str) -> frozenset[str]:
    """The set of characters of a text without white space."""
    return frozenset("".join(text.split()))


def dissimilarity(u: frozenset[str], v: frozenset[str]) -> float:
    """Jaccard dissimilarity of two sets, 0 where both are empty."""
    return 1 - len(u & v) / len(u | v) if u | v else 0.0


@dataclass(frozen=True)
class Filter:
    """The three conditions on p(g(x)) of section 3.3.

    The third compares tokens that the paper does not define. For the five pairs of its Table 2
    `characters` give nearly its figures; `words` refuse right perturbations of short texts, and
    characters hardly show additions to a long text. `neutral`, ours, compares the words of neither
    group. `substitution` knows these; None counts every word.

    `UserError` if `compared` is not a unit.
    """

    substitution: Substitution | None
    compared: str = "neutral"

    def __post_init__(self) -> None:
        require_known("unit in compared:", self.compared, FILTER_UNITS)

    def reason(self, original: str, perturbed: str, prompt: PairedPrompt) -> Reason | None:
        """The first condition that a perturbation violates; None where it passes."""
        if not perturbed.startswith(prompt.target):
            return "start"
        name = prompt.source_name
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", perturbed, re.IGNORECASE):
            return "source name"
        if self.dissimilarity(original, perturbed, prompt) > MAX_DISSIMILARITY:
            return "dissimilarity"
        return None

    def dissimilarity(self, original: str, perturbed: str, prompt: PairedPrompt) -> float:
        return dissimilarity(self._units(original, prompt), self._units(perturbed, prompt))

    def _units(self, text: str, prompt: PairedPrompt) -> frozenset[str]:
        if self.compared == "characters":
            return characters_of(text)
        words = word_set(text)
        if self.substitution is None or self.compared == "words":
            return words
        named = {n.lower() for n in (prompt.source_name, prompt.target_name) if n}
        neutral = {w.split("'")[0].split("’")[0] for w in words} - named
        return frozenset(neutral - self.substitution.lexicon_words - {"a", "an"})
