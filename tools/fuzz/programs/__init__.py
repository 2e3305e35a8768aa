"""Makes random torch programs, compares them with eager, and reduces failing ones."""
