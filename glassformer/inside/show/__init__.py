"""HTML rendering of results for a notebook or one standalone file.

Nothing is fetched: images are inline SVG, or PNG as data URLs, and scripts are part of the file.
"""
