"""Recognise a model by the vectors it makes of fixed texts, whatever engine or processor computes them."""

import hashlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.embedder import Vectors

PROBE_TEXTS: Final = (
    "The quick brown fox jumps over the lazy dog.",
    "How do I borrow a value mutably?",
    "A citation points at the exact characters of its source.",
    "def main() -> None: print('hello')",
    "Äpfel, 東京, Ω and 🦊 are not ASCII.",
    "42",
    "Interest rates rose by a quarter of a percentage point in March 2023.",
    "photosynthesis",
)

LONG_TEXTS: Final = (
    " ".join(PROBE_TEXTS) * 2,
    " ".join(reversed(PROBE_TEXTS)),
    "word " * 600,
    "",
)
"""Other lengths a model meets: medium, beyond the limit of most models, none."""

CHECK_TEXTS: Final = PROBE_TEXTS + LONG_TEXTS
"""What engines of the same weights are compared by."""

MIN_COSINE: Final = 0.999
"""Two ways to run the same weights must agree to this cosine on every text that is compared."""

_BITS_PER_TEXT = 8
_SALT = b"groundwire-probe-2143"
"""Chosen so that no bit of the default model lies near its boundary (tests/unit/embedders/test_probe.py)."""


def probe_digest(vectors: Vectors) -> str:
    """Return the SHA-256 (hex) of 64 signs of random projections of the vectors of PROBE_TEXTS.

    The sign of a projection is the coarsest rounding there is; two models agree in a bit by chance only.

    Args:
        vectors: float32, shape (len(PROBE_TEXTS), dimensions), rows L2-normalised.

    Source: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002, section 3.
    """
    bits = np.packbits(projections(vectors) > 0)
    return hashlib.sha256(f"{vectors.shape[1]}:".encode() + bits.tobytes()).hexdigest()


def projections(vectors: Vectors) -> NDArray[np.float64]:
    """Return float64 of shape (8 texts, 8): about normal with variance 1 for unit vectors of a good model."""
    dimensions = vectors.shape[1]
    noise = hashlib.shake_256(_SALT).digest(_BITS_PER_TEXT * dimensions)
    signs = np.where(np.frombuffer(noise, np.int8).reshape(dimensions, _BITS_PER_TEXT) < 0, -1.0, 1.0)
    projected: NDArray[np.float64] = vectors.astype(np.float64) @ signs
    return projected


def cosines(left: Vectors, right: Vectors) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows, shape (n,), in [-1, 1]."""
    left64, right64 = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(left64, axis=1) * np.linalg.norm(right64, axis=1)
    result: NDArray[np.float64] = (left64 * right64).sum(axis=1) / np.maximum(norms, 1e-12)
    return result
