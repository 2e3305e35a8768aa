"""The parts of cuesta-bench: cases, interleaved timing, compile times and peak memory in fresh processes, output."""
