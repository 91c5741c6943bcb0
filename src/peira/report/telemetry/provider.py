"""Where spans go: to the provider that the program has configured, else where the environment says.

The environment is OpenTelemetry's own: OTEL_TRACES_EXPORTER (otlp, console, none, or what else is installed),
OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and so on. Of all this only the exporters
are looked up here; the rest is read by OpenTelemetry itself.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from peira.core.registry import nearest
from peira.errors import Invalid

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

GROUP = "opentelemetry_traces_exporter"
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOL = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def provider_in_use() -> TracerProvider:
    """Invalid if OpenTelemetry, or the exporter that is asked for, is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        raise Invalid('telemetry: "otel" needs OpenTelemetry: pip install "peira[otel]"') from None
    given = trace.get_tracer_provider()
    return _made() if isinstance(given, trace.ProxyTracerProvider) else given


@lru_cache(1)
def _made() -> TracerProvider:
    """Ours, for the life of the process; what it holds is sent when the process ends, if not before."""
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise Invalid('telemetry: "otel" needs OpenTelemetry\'s SDK: pip install "peira[otel]"') from None
    exporters = [_exporter(name) for name in _wanted()]
    ours = Resource.create().merge(Resource({"service.name": "peira"}))
    made = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    for exporter in exporters:
        made.add_span_processor(BatchSpanProcessor(exporter))
    return made


def _wanted() -> list[str]:
    names = map(str.strip, os.environ.get(EXPORTER, "otlp").split(","))
    return [name for name in names if name not in ("", "none")]


def _exporter(name: str) -> Any:
    from importlib.metadata import entry_points  # slow, and not needed before this

    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    found = next((one for one in _plugins(name) if one in installed), None)
    if found is None and name == "otlp":
        raise Invalid(
            f'telemetry: no exporter for OTLP is installed: pip install "peira[otel]", or set {EXPORTER}'
        )
    if found is None:
        raise Invalid(f"telemetry: {EXPORTER}: no exporter {name!r}{nearest(name, installed)}")
    try:
        return installed[found].load()()
    except Exception as problem:
        raise Invalid(f"telemetry: the exporter {name!r} cannot be used: {problem}") from problem


def _plugins(name: str) -> list[str]:
    """What may be installed for an exporter of this name. OTLP is spoken in two ways."""
    if name != "otlp":
        return [name]
    said = (os.environ.get(variable) for variable in PROTOCOL)
    protocol = next(filter(None, said), None)
    return list(OTLP.values()) if protocol is None else [OTLP.get(protocol, protocol)]
