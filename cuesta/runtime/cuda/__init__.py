"""Programs on an NVIDIA GPU: the driver's library, launches, and CUDA graphs that record a call and repeat it."""
