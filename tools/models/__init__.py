"""Defines the models of tests, benchmarks and suites: real architectures, random weights, no downloads."""

from cuesta.tools.models.case import Built, ModelCase
from cuesta.tools.models.registry import MODELS, find_model

__all__ = ["MODELS", "Built", "ModelCase", "find_model"]
