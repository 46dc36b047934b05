"""Drawings for HTML pages: inline SVG, with labelled axes, in light and dark, without scripts."""
