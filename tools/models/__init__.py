"""Defines the models of tests, benchmarks and suites: real architectures, random weights, no downloads.

`registry` lists them; the other modules define the networks.
"""

from cuesta.tools.models.case import Built, ModelCase, SuiteCase
from cuesta.tools.models.registry import MODELS, SUITE, find_model, published

__all__ = ["MODELS", "SUITE", "Built", "ModelCase", "SuiteCase", "find_model", "published"]
