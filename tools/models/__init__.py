"""Defines the models of tests, benchmarks and suites: real architectures, random weights, no downloads.

`registry` lists them, and `dashboard` those of torch.compile's dashboard; the other modules define the networks.
"""

from cuesta.tools.models.case import Built, ModelCase, SuiteCase
from cuesta.tools.models.dashboard import DASHBOARD, DashboardModel
from cuesta.tools.models.registry import MODELS, SUITE, find_model, published

__all__ = [
    "DASHBOARD",
    "MODELS",
    "SUITE",
    "Built",
    "DashboardModel",
    "ModelCase",
    "SuiteCase",
    "find_model",
    "published",
]
