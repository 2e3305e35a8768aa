"""Lists the small models of real architectures that the model suite compares with eager, at any batch size."""

from cuesta.tools.models.suite.case import SuiteCase
from cuesta.tools.models.suite.language import LANGUAGE
from cuesta.tools.models.suite.others import OTHERS
from cuesta.tools.models.suite.vision import VISION

SUITE: tuple[SuiteCase, ...] = (*LANGUAGE, *VISION, *OTHERS)

__all__ = ["SUITE", "SuiteCase"]
