"""Synonyms from the files of WordNet, as NLTK asks for them: `synsets(word)`, with `lemmas()` of a `name()`.

NLTK itself reads those files only where its own downloader put them, which needs a network; they also come
with Debian, in the package wordnet-base.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from peira.core.ids import digest_bytes
from peira.errors import Invalid

PARTS = ("noun", "verb", "adj", "adv")
ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
"""How each part of speech loses an ending, as WordNet's own morphology does it."""
SYSTEM = Path("/usr/share/wordnet")


class Lemma(NamedTuple):
    word: str

    def name(self) -> str:
        return self.word


class Synset(NamedTuple):
    words: tuple[Lemma, ...]

    def lemmas(self) -> tuple[Lemma, ...]:
        return self.words


class Part:
    """One part of speech: where the meanings of each word stand, and the forms that follow no rule."""

    def __init__(self, folder: Path, name: str) -> None:
        self._data = (folder / f"data.{name}").read_bytes()
        index = (folder / f"index.{name}").read_text("utf-8").splitlines()
        self._places = {line.partition(" ")[0]: line for line in index if not line.startswith(" ")}
        irregular = (folder / f"{name}.exc").read_text("utf-8").splitlines()
        self._irregular = {form: bases for form, *bases in map(str.split, irregular)}
        self._endings = [rule.split(":") for rule in ENDINGS[name].split()]

    def synsets(self, word: str) -> list[Synset]:
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
        """The forms of a word that stand in the index."""
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
    def __init__(self, folder: Path) -> None:
        self._parts = [Part(folder, name) for name in PARTS]
        self.version = digest_bytes((folder / "data.noun").read_bytes())[:16]

    def synsets(self, word: str) -> list[Synset]:
        """Every meaning of a word, in any of its forms."""
        form = word.lower().replace(" ", "_")
        return [synset for part in self._parts for synset in part.synsets(form)]


def wordnet() -> Synonyms:
    """WordNet as it is installed; Invalid says where it is looked for."""
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
