"""What queries have in common: the variables they obey, and what tells one sidecar from another."""

from __future__ import annotations

from typing import Final

from dashboards.source.panels import Query

PLACE: Final = 'cluster=~"$cluster",namespace=~"$namespace",pod=~"$pod"'
AT: Final = f'{PLACE},agent=~"$agent"'
ONE: Final = "cluster, namespace, pod, job, instance"
"""What tells one sidecar from another, whichever of these labels there are."""

WORKING: Final = 'phase=~"model|tool|delegated|compacting|retrying"'
TURN: Final = 'bound!~"idle|starting|limited|gone"'


def quantiles(metric: str, *, by: str = "", of: tuple[float, ...] = (0.5, 0.95, 0.99)) -> list[Query]:
    """The median and the tail of a histogram, with examples that lead to traces."""
    labels, name = (f"{by}, le", f"{{{{{by}}}}} ") if by else ("le", "")
    inner = f"sum by ({labels}) (rate({metric}_bucket{{{AT}}}[$__rate_interval]))"
    return [
        Query(f"histogram_quantile({q}, {inner})", f"{name}p{round(q * 100)}", exemplars=True) for q in of
    ]
