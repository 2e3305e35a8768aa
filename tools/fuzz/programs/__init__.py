"""Random torch programs: made, judged against eager, reduced."""
