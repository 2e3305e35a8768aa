"""Adds cuesta to the enum in which Hugging Face's accelerate lists the backends of torch.compile."""

from __future__ import annotations

_NAME = "CUESTA"


def register_with_accelerate() -> None:
    """Lets accelerate, and so Trainer, accept "cuesta": `TrainingArguments(torch_compile_backend="cuesta")`.

    Raises ImportError where accelerate is not installed.
    """
    from accelerate.utils import DynamoBackend

    if _NAME in DynamoBackend.__members__:
        return
    member = str.__new__(DynamoBackend, _NAME)
    member._name_ = member._value_ = _NAME
    DynamoBackend._member_names_.append(_NAME)
    DynamoBackend._member_map_[_NAME] = member
    DynamoBackend._value2member_map_[_NAME] = member
