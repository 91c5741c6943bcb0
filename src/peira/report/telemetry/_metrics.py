"""OpenTelemetry metrics of calls, by its GenAI semantic conventions: tokens, durations, and what calls cost.

They go to the meter provider that the program has configured. If it has none, one is made if
OTEL_METRICS_EXPORTER names exporters; otherwise there are no metrics.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from peira.core.models import Reply
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.report.telemetry.conventions import of_call

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

EXPORTER, GROUP = "OTEL_METRICS_EXPORTER", "opentelemetry_metrics_exporter"
OTLP = ("otlp_proto_http", "otlp_proto_grpc")
KEPT = ("gen_ai.operation.name", "gen_ai.request.model", "gen_ai.provider.name", "server.address")
"""Attributes of calls that metrics have as well; few values each."""


class CallMetrics:
    """Records tokens, duration and cost of each call."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        from importlib.metadata import version  # slow, and not needed before this

        meter = (provider or provider_in_use()).get_meter("peira", version("peira"))
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of calls")
        self._duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of calls")
        self._cost = meter.create_counter("peira.cost", "USD", "What calls cost")
        self._open: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}

    def began(self, key: tuple[str, ...], model: str, vendor: str, address: str, at: float) -> None:
        """A call is about to be sent."""
        known = of_call(model, None, False, vendor, address)[1]
        self._open[key] = at, {name: known[name] for name in KEPT if name in known}

    def ended(self, key: tuple[str, ...], reply: Reply | None, error: str, at: float) -> None:
        """A call ended, with a reply or an error."""
        since, known = self._open.pop(key, (at, {}))
        if reply is None:
            self._duration.record(max(0.0, at - since), {**known, "error.type": error})
            return
        known |= {"gen_ai.response.model": reply.model} if reply.model else {}
        self._duration.record(max(0.0, at - since), known)
        for kind, count in (("input", reply.usage.input), ("output", reply.usage.output)):
            if count is not None:
                self._tokens.record(count, {**known, "gen_ai.token.type": kind})
        if reply.cost:
            self._cost.add(reply.cost, known)


def provider_in_use() -> MeterProvider:
    """The program's meter provider, or one configured from the environment; Invalid if that is impossible."""
    from opentelemetry import metrics

    given = metrics.get_meter_provider()
    wanted = [
        name for name in map(str.strip, os.environ.get(EXPORTER, "").split(",")) if name not in ("", "none")
    ]
    unset = type(given).__name__ == "_ProxyMeterProvider"
    return _configured_provider(tuple(wanted)) if unset and wanted else given


@lru_cache(1)
def _configured_provider(names: tuple[str, ...]) -> MeterProvider:
    """Our own meter provider, one per process; it sends what is left when the process ends."""
    from importlib.metadata import entry_points  # slow, and not needed before this

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    readers = []
    for name in names:
        found = next((one for one in (OTLP if name == "otlp" else (name,)) if one in installed), None)
        if found is None:
            raise Invalid(f"telemetry: {EXPORTER}: no exporter {name!r}{nearest(name, installed)}")
        readers.append(PeriodicExportingMetricReader(installed[found].load()()))
    ours = Resource.create().merge(Resource({"service.name": "peira"}))
    return MeterProvider(readers, ours.merge(OTELResourceDetector().detect()))
