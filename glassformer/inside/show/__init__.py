"""What was found, as HTML for a notebook or one standalone file.

Nothing is fetched: pictures are inline SVG, or PNG as data, and scripts stand in the file itself.
"""
