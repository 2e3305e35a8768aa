"""Defines every error that cuesta raises on purpose. Each message names what was wrong and what is valid."""

from __future__ import annotations


class CuestaError(RuntimeError):
    """The root of cuesta's errors."""


class OptionError(CuestaError, ValueError):
    """A mode, an option, a target or an environment variable that cuesta does not know."""


class PipelineError(CuestaError, ValueError):
    """A pipeline text that does not parse, or that names a pass nobody registered."""


class CompileError(CuestaError):
    """A graph could not be compiled."""


class Unsupported(CompileError):
    """An op, a type or a layout that a level cannot express. Names the op and its source line."""


class WrongElementType(Unsupported):
    """An op of the dialect whose operands have element types on which it does not compute."""


class Undecided(Unsupported):
    """The code would differ with a size that only a call tells."""


class OutOfResources(CompileError):
    """A kernel needs more of a resource than a block of the target may have; smaller blocks may need less.

    `kernel` is its name; `needed` and `limit` count `resource`, such as "bytes of shared memory".
    """

    def __init__(self, kernel: str, target: str, resource: str, needed: int, limit: int) -> None:
        super().__init__(f"kernel {kernel} needs {needed} {resource}, and target {target} has {limit} for a block")
        self.kernel, self.target, self.resource, self.needed, self.limit = kernel, target, resource, needed, limit


class KernelRefused(CompileError):
    """Triton parses a kernel but fails to compile it, by a bug or a limit of Triton's; smaller blocks may succeed."""


class VerifyError(CompileError):
    """IR that breaks a rule of its level. Names the stage or pass and the op."""


class PassFailed(CompileError):
    """A pass raised or signalled failure. Holds the command that reproduces it."""


class MemoryLimitError(CuestaError):
    """A call would take more memory than `options={"memory_limit": …}` allows, or its memory cannot be known.

    Nothing of the graph has run. The message says how much memory would be taken, and by which buffers.
    """


class InputError(CuestaError, ValueError):
    """A value that a function of cuesta does not take, or arguments or weights that a program was not compiled for."""


class ArtefactError(CuestaError):
    """Bytes that are not a loadable artefact: damaged, cut short, or made for another machine."""


class UnsafeFileError(ArtefactError):
    """A file that is not read, because others could have put code there, it is no regular file, or it is too large."""


class SignatureError(ArtefactError):
    """A program that is not signed, was signed with another key, or was changed since. Nothing of it was read."""


class DeviceError(CuestaError):
    """There is no driver or device that the code can run on, or its kernels do not load there."""


class ExecutionError(CuestaError):
    """A call into ATen or a launch failed while a graph was running. Carries torch's or the driver's words."""


class BoundsError(ExecutionError):
    """With `options={"checked": True}`: a read or a write was outside of its buffer, and was not carried out; or memory
    around buffers was overwritten."""
