"""Makes the pages of the documentation site that code decides, for mkdocs (`make docs`).

Comes in: the passes, stages, ops and commands as they are defined, the programs in examples/, and the project's files
beside docs/. Goes out: Markdown pages, which exist only while mkdocs builds the site; `hooks` hands them over. May
import all of cuesta.
"""
