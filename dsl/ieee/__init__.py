"""Effects of a rule in IEEE arithmetic: a verdict for each format, with the inputs that show it.

**What the sides compute.** The captures are numbers of the format (or of the type that an annotation, or their place, gives
them); a rule with annotations such as `x : f16 | bf16` is judged in those formats only. A number in the rule is rounded once to
the type of what it stands beside. Then every operation rounds:

- Basic operations (+ - * / sqrt, square, reciprocal, fma, cast, round_to, and those that need no rounding: neg, abs, max, min,
  comparisons, where, floor …) give the exact result rounded once, to nearest with ties to even, subnormals kept. A result beyond
  the largest number is ±inf, or NaN in a format without infinities; a *cast* to f8E4M3FN saturates, as the dialect says.
- `max` and `min` are those of IEEE 754-2019: NaN where an operand is, and -0 below +0. (NumPy leaves the zero open: which one it
  gives depends on the type and on the order of the operands.)
- Every other pointwise operation is its function, evaluated wider (in float64; for f64 in longdouble where that is wider) and
  rounded once. No result depends on a library of functions but for f64 on machines without a wider type.
- Reductions, norms, contractions and convolutions are computed as `FACTS.evaluate` says, step by step: in float32 for the
  narrow formats, as torch does, else in the format itself, and rounded to the format at the end. Sums go from left to right
  without fused multiply-adds. An implementation with another order rounds differently, and may overflow elsewhere.
- Casts inside a rule round to what they name. Integers wrap around; a float beyond the range of an integer type becomes the
  nearest integer there is, and NaN 0.

**Which inputs count.** Those that meet `where`, by the comparisons of IEEE 754 on exact values: a NaN meets no comparison but
`!=`. `finite(x)` and `integral(x)` are honoured. A comparison of computed values is made in float64. Results are compared bit
for bit; all NaNs are one value.

**What a status says** of those inputs. `exact`: the same bits. `exact unless …`: the same bits, apart from the sign of a zero
(in a result, or in an input: `signed zeros`), inputs with a NaN (`NaNs`), inputs with an infinity (`infinities`). `rounds
differently`: the right side is finite exactly where the left is, and values differ. `safer`: the right side is finite wherever
the left is, and somewhere else too. `may lose`: there is an input at which the left side is finite and the right is not; or at
which the left side is NaN since it has no value there or next to it (log(-1), not 0/0), and the right side is a number. A rule
that may be read both ways (`<=>`) may lose where either reading does. The first of may lose, safer, exact, exact unless, rounds
differently that fits is given. A loss (or gain) that is only a rounding at the edge of overflow, or only at inputs that are not
finite, is marked as such.

**How it is known.** By all inputs, where a pointwise rule has few (two captures of 8 bits, one of 16). Else by a search: special
numbers of the format and of the rule in combination, related and random ones, small tensors, and the neighbourhood of overflow.
What the search cannot break is given to Z3 where the rule is made of basic operations, for f16, bf16, f32, f64 and f8E5M2. A
verdict is `proved` if one of the two ways settles it. A status that rests on the search alone is a report of the search; a loss
is certain in any case, since its input is at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.judge import judged
from hnfc.dsl.ieee.parallel import ieee_all, ieee_fingerprint, stored_verdicts
from hnfc.dsl.ieee.verdict import (
    ASSUMPTIONS,
    DEFAULT_SECONDS,
    FORMATS_JUDGED,
    IeeeExample,
    IeeeStatus,
    IeeeTensor,
    IeeeVerdict,
)


def ieee_verdicts(
    rule: Rule,
    formats: Sequence[str] = FORMATS_JUDGED,
    assume: frozenset[str] = frozenset(),
    seconds: float = DEFAULT_SECONDS,
) -> tuple[IeeeVerdict, ...]:
    """The verdict on the rule in each of the formats in which it has a type, within about `seconds`.

    assume: `no-nans` and `no-infs` leave out such inputs; `no-signed-zeros` leaves out -0 and takes the two zeros for one result.
    Raises ValueError for a format or an assumption that there is not.
    """
    return judged(rule, formats, assume, seconds)


__all__ = [
    "ASSUMPTIONS",
    "DEFAULT_SECONDS",
    "FORMATS_JUDGED",
    "IeeeExample",
    "IeeeStatus",
    "IeeeTensor",
    "IeeeVerdict",
    "ieee_all",
    "ieee_fingerprint",
    "ieee_verdicts",
    "stored_verdicts",
]  # fmt: skip
