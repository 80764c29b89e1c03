"""What goes over the edges of the process: sources asked, alerts taken in, sinks served."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from triage.errors import SourceFailure, ToolFailure
from triage.model.alert import AcceptStatus
from triage.telemetry.instruments import (
    CounterCell,
    GaugeCell,
    HistogramCell,
    HotCounter,
    HotGauge,
    HotHistogram,
)

CALL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # s
DELIVERY_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)  # seconds

OTHER = "other"
CALL_RESULTS = (
    "ok",
    ToolFailure.QUERY_REJECTED.value,
    ToolFailure.ANSWER_TOO_LARGE.value,
    *(failure.value for failure in SourceFailure),
    OTHER,
)
FORMATS = ("native", "alertmanager", "grafana", "pagerduty", "cloudevents", "sns")
EXPECTED_CODES = (202, 400, 401, 413, 429, 503)
DELIVERY_RESULTS = ("delivered", "retried", "rejected", "given_up")


class SourceCell:
    """What the calls of one source are told to."""

    __slots__ = ("_answer_bytes", "_breaker", "_ok", "_results", "_retries", "_seconds")

    def __init__(
        self,
        results: dict[str, CounterCell],
        seconds: HistogramCell,
        answer_bytes: CounterCell,
        retries: CounterCell,
        breaker: GaugeCell,
    ) -> None:
        self._results = results
        self._ok = results["ok"]
        self._seconds = seconds
        self._answer_bytes = answer_bytes
        self._retries = retries
        self._breaker = breaker

    def ok(self, seconds: float, answer_bytes: int) -> None:
        self._ok.inc()
        self._seconds.observe(seconds)
        self._answer_bytes.inc(answer_bytes)

    def failed(self, reason: str, seconds: float) -> None:
        """`reason` is that of the ToolFailed or SourceFailed; an unknown one counts as other."""
        self._results.get(reason, self._results[OTHER]).inc()
        self._seconds.observe(seconds)

    def retried(self) -> None:
        self._retries.inc()

    def breaker(self, *, is_open: bool) -> None:
        self._breaker.set(1.0 if is_open else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMetrics:
    calls: HotCounter
    seconds: HotHistogram
    answer_bytes: HotCounter
    retries: HotCounter
    breaker_open: HotGauge
    cells: dict[str, SourceCell] = field(default_factory=dict)

    @classmethod
    def register(cls, registry: CollectorRegistry) -> SourceMetrics:
        return cls(
            calls=HotCounter(
                "triage_source_calls_total",
                "Calls of a source, by how they ended.",
                ("source", "result"),
                registry=registry,
            ),
            seconds=HotHistogram(
                "triage_source_seconds",
                "Time of one call of a source, failed ones included.",
                ("source",),
                buckets=CALL_BUCKETS,
                registry=registry,
            ),
            answer_bytes=HotCounter(
                "triage_source_answer_bytes_total",
                "Size of the answers of a source, as stored in evidence before compression.",
                ("source",),
                registry=registry,
            ),
            retries=HotCounter(
                "triage_source_retries_total",
                "Calls of a source that were a second try.",
                ("source",),
                registry=registry,
            ),
            breaker_open=HotGauge(
                "triage_source_breaker_open",
                "Whether calls of a source are refused at once because it kept failing.",
                ("source",),
                registry=registry,
            ),
        )

    def for_sources(self, sources: Iterable[str]) -> None:
        """Expose exactly these sources, from zero where new: called at start and each reload."""
        wanted = dict.fromkeys(sources)
        for source in [source for source in self.cells if source not in wanted]:
            del self.cells[source]
        alone = {(source,) for source in wanted}
        self.calls.retain({(source, result) for source in wanted for result in CALL_RESULTS})
        self.seconds.retain(alone)
        self.answer_bytes.retain(alone)
        self.retries.retain(alone)
        self.breaker_open.retain(alone)
        for source in wanted:
            self.cell(source)

    def cell(self, source: str) -> SourceCell:
        """The source's cell, made when `for_sources` did not name it."""
        cell = self.cells.get(source)
        if cell is None:
            cell = self.cells[source] = SourceCell(
                {result: self.calls.labels(source, result) for result in CALL_RESULTS},
                self.seconds.labels(source),
                self.answer_bytes.labels(source),
                self.retries.labels(source),
                self.breaker_open.labels(source),
            )
        return cell


class IntakeCell:
    """What the requests of one payload format are told to."""

    __slots__ = ("_alerts", "_format", "_rejected", "_requests", "_seconds", "_truncated")

    def __init__(
        self,
        *,
        payload_format: str,
        requests: HotCounter,
        alerts: dict[str, CounterCell],
        rejected: CounterCell,
        truncated: CounterCell,
        seconds: HistogramCell,
    ) -> None:
        self._format = payload_format
        self._requests = requests
        self._alerts = alerts
        self._rejected = rejected
        self._truncated = truncated
        self._seconds = seconds

    def request(self, code: int, seconds: float) -> None:
        """One request answered with the HTTP status `code`."""
        self._requests.labels(self._format, str(code)).inc()
        self._seconds.observe(seconds)

    def alert(self, status: AcceptStatus) -> None:
        """One arrival is durable."""
        self._alerts[status.value].inc()

    def rejected(self, alerts: int = 1) -> None:
        """That many entries could not be alerts."""
        self._rejected.inc(alerts)

    def truncated(self, alerts: int) -> None:
        """The sender says that it left out that many."""
        self._truncated.inc(alerts)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeMetrics:
    """`formats` has one cell a payload format."""

    formats: dict[str, IntakeCell]

    @classmethod
    def register(
        cls, registry: CollectorRegistry, *, formats: Sequence[str] = FORMATS
    ) -> IntakeMetrics:
        requests = HotCounter(
            "triage_intake_requests_total",
            "Requests by payload format and HTTP status.",
            ("format", "code"),
            registry=registry,
        )
        alerts = HotCounter(
            "triage_intake_alerts_total",
            "Arrivals made durable, by what they turned out to be.",
            ("format", "status"),
            registry=registry,
        )
        rejected = HotCounter(
            "triage_intake_rejected_total",
            "Entries of requests that could not be alerts.",
            ("format",),
            registry=registry,
        )
        truncated = HotCounter(
            "triage_intake_truncated_alerts_total",
            "Alerts that the sender says it left out: they were lost before they came here.",
            ("format",),
            registry=registry,
        )
        seconds = HotHistogram(
            "triage_intake_seconds",
            "Time of a request, from its head to the answer, durable write included.",
            ("format",),
            buckets=CALL_BUCKETS,
            registry=registry,
        )
        cells = {}
        for name in formats:
            for code in EXPECTED_CODES:
                requests.labels(name, str(code))
            cells[name] = IntakeCell(
                payload_format=name,
                requests=requests,
                alerts={status.value: alerts.labels(name, status.value) for status in AcceptStatus},
                rejected=rejected.labels(name),
                truncated=truncated.labels(name),
                seconds=seconds.labels(name),
            )
        return cls(formats=cells)

    def cell(self, payload_format: str) -> IntakeCell:
        """Raises KeyError for a format that was not registered: names come from requests' paths,
        and must not become labels."""
        return self.formats[payload_format]


class SinkCell:
    """What the deliveries to one sink are told to."""

    __slots__ = ("_results", "_seconds")

    def __init__(self, results: dict[str, CounterCell], seconds: HistogramCell) -> None:
        self._results = results
        self._seconds = seconds

    def record(self, result: str, seconds: float) -> None:
        """`result` is one of DELIVERY_RESULTS; raises KeyError for another."""
        self._results[result].inc()
        self._seconds.observe(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMetrics:
    deliveries: HotCounter
    seconds: HotHistogram
    cells: dict[str, SinkCell] = field(default_factory=dict)

    @classmethod
    def register(cls, registry: CollectorRegistry) -> SinkMetrics:
        return cls(
            deliveries=HotCounter(
                "triage_sink_deliveries_total",
                "Attempts to deliver a message, by how they ended.",
                ("sink", "result"),
                registry=registry,
            ),
            seconds=HotHistogram(
                "triage_sink_seconds",
                "Time of one attempt to deliver a message.",
                ("sink",),
                buckets=DELIVERY_BUCKETS,
                registry=registry,
            ),
        )

    def cell(self, sink: str) -> SinkCell:
        """The sink's cell, made on first use; sinks change at a restart only."""
        cell = self.cells.get(sink)
        if cell is None:
            cell = self.cells[sink] = SinkCell(
                {result: self.deliveries.labels(sink, result) for result in DELIVERY_RESULTS},
                self.seconds.labels(sink),
            )
        return cell
