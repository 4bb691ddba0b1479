"""Vectors of many dimensions on paper: seen along the two directions in which they differ most."""

from typing import Any

import numpy as np

from headwater.claims.figures.paper import Array, visible

NEAR = 0.13
"""Of the height: points closer than that have their names on different sides."""


def plane(points: Array) -> tuple[Array, Array]:
    """The two directions along which points differ most, and their mean."""
    centre = points.mean(axis=0)
    directions = np.linalg.svd(points - centre, full_matrices=False)[2][:2]
    # An SVD leaves signs open: the largest entry is positive.
    signs = np.sign(directions[np.arange(2), np.abs(directions).argmax(axis=1)])
    return directions.T * signs, centre


def hull(points: Array) -> Array:
    """The corners of the convex hull of points of the plane, in order round it.

    >>> hull(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [1.0, 2.0]])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [1.0, 2.0]]
    """
    ordered: list[Any] = sorted((float(x), float(y)) for x, y in points)
    return np.array([*_chain(ordered), *_chain(ordered[::-1])])


def _chain(ordered: list[Any]) -> list[Any]:
    """The lower side, without its last corner."""
    corners: list[Any] = []
    for point in ordered:
        while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0:
            corners.pop()
        corners.append(point)
    return corners[:-1]


def _turn(a: Any, b: Any, c: Any) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def inside(points: Array, corners: Array) -> float:
    """How far the farthest of some points lies outside of a hull; 0 where all are inside."""
    ends = np.roll(corners, -1, axis=0)
    edges = ends - corners
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1) / np.linalg.norm(edges, axis=1, keepdims=True)
    return float(np.maximum(((points[:, None] - corners) * normals).sum(axis=-1), 0).max())


def cloud(axes: Any, points: Array, words: tuple[str, ...], **style: Any) -> None:
    """Points with their tokens beside them; directions have no units, so the axes have no numbers."""
    axes.plot(*points.T, "s", **{"markersize": 7} | style)
    reach = float(np.ptp(points[:, 1])) or 1.0
    for word, (x, y) in zip(words, points, strict=True):
        near = points[np.abs(points[:, 1] - y) < NEAR * reach, 1]
        above = y >= near.mean() or len(near) == 1
        axes.annotate(visible(word), (x, y), (0, 7 if above else -7), textcoords="offset points", family="monospace", size=8.5,
                      ha="center", va="bottom" if above else "top")  # fmt: skip
    axes.set(xticks=[], yticks=[])
    axes.margins(0.16)
