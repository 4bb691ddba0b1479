"""The studio: a local web application over the library. ``shelf`` holds what is served, ``guard`` who may ask, ``work`` how it is computed."""
