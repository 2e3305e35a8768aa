"""Random graphs of the cuesta dialect: made, judged against each op's torch reference, reduced."""
