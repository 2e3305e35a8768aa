"""Functions and many calls of each, with arguments unlike those of the compile: made, judged, reduced."""
