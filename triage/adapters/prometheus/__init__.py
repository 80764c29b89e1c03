"""A metrics source over the query API that Prometheus and its kin serve."""

from triage.adapters.prometheus.source import PrometheusSource

__all__ = ["PrometheusSource"]
