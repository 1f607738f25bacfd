"""How Sphinx builds the site."""

project = "standfast"
author = "The standfast authors"
html_title = "standfast"
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_theme = "furo"  # its fonts are the reader's own, and it loads nothing from another host
extensions = ["myst_parser"]
smartquotes = False  # so that examples can be copied
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
exclude_patterns: list[str] = []
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # `…` makes an example invalid Python, but readers understand it
