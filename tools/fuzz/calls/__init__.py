"""Makes functions, each with many calls whose arguments differ from those of the compile; judges and reduces them."""
