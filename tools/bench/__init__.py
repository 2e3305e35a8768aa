"""What cuesta-bench is made of: cases, interleaved timing, compile times and peak memory in fresh processes, output."""
