"""One side of a rule: its value, its sensitivity, and the error of computing it, each to first order as a formula.

The model is the standard one (Higham: Accuracy and stability of numerical algorithms, 2002, sections 2.2 and 3.1): an operation's result
is off by at most a multiple of the unit roundoff u relative to the result, `FACTS.ulps`; one that combines many numbers by what
`FACTS.accumulation` states. Operations that need no rounding have none: a change of sign, an absolute value, a choice, a movement of
elements, a multiplication by a power of two. Arithmetic on constants is done when compiling, and rounded once. An operation in a wider
format (a `cast` of half precision to float32) rounds by less than u², which first order leaves out.

Overflow and underflow are not part of it; the verdict in IEEE arithmetic speaks of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hnfc.dialects.facts import Access, Accumulation
from hnfc.dialects.types import FORMATS, Kind, working
from hnfc.dsl.core import Apply, Axis, Capture, DTypeOf, Expr, Literal, Size, walk
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.algorithms import algorithm
from hnfc.dsl.error.differentiation import JetMath
from hnfc.dsl.error.jets import Condition, Jet, NoErrorFormula, Source
from hnfc.dsl.error.moves import Moving, is_selection, moves_one_axis
from hnfc.dsl.error.polynomial import ONE, ZERO, ErrorAtom, Poly, of_atom

WIDE = frozenset(name for name, form in FORMATS.items() if working(form) is form)
NARROW = FORMATS.keys() - WIDE

TRANSPARENT = frozenset((
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "rsqrt", "square", "reciprocal", "pow", "exp", "log", "sin", "cos", "atan", "asin",
    "acos", "atan2", "erf", "lgamma", "i0", "floor", "maximum", "minimum", "relu", "fma", "where", "sign", "compare", "cast", "broadcast",
    "logical_and", "logical_or", "logical_not", "logical_xor", "isnan", "isinf", "isfinite", "round_to", "matmul", "transpose", "sum",
    "prod", "max", "min", "kahan_sum", "pairwise_sum", "any", "all",
))  # fmt: skip
"""Operations whose value is shown by the functions that define it; others keep their name."""


@dataclass
class RuleContext:
    """Context that both sides of a rule share: the algebra with its knowledge of the captures, the axes, and the formats."""

    algebra: Algebra
    axes: tuple[Axis, ...]
    free: frozenset[tuple[str, Axis]] = frozenset()
    same: Mapping[tuple[str, Axis], tuple[str, Axis]] = field(default_factory=dict)
    scalars: frozenset[str] = frozenset()
    booleans: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    """Constants that are integers, and exact."""
    spatial: int = 0
    """Number of axes of convolutions besides those of batches and channels."""
    narrow: bool = False
    """The captures are in half precision or less, so that float32 is a wider format."""

    def vary(self, name: str) -> dict[Axis, frozenset[Any]]:
        """The captured tensor may vary along every axis that no condition excludes; equal sizes have one name."""
        if name in self.scalars:
            return {}
        return {axis: frozenset({self.same.get((name, axis), (name, axis))}) for axis in self.axes if (name, axis) not in self.free}


class Side(Moving):
    """The jets of one expression. `rounding` adds each operation's own error, `inputs` says which captures are sources of error."""

    def __init__(self, context: RuleContext, whole: Expr, rounding: bool, inputs: frozenset[str] = frozenset()) -> None:
        self.context, self.whole, self.rounding = context, whole, rounding
        definite = not any(isinstance(node, Apply) and node.name == "where" for node in walk(whole))
        self.math = JetMath(context.algebra, context.axes, definite)
        self.algebra, self.axes, self.spatial = context.algebra, context.axes, context.spatial
        self.inputs = {name: Source(ONE, context.vary(name)) for name in inputs}
        self.constants: dict[Expr, Source] = {}
        self.memo: dict[Expr, Jet | Condition] = {}
        self.folding: Side | None = None

    def result(self) -> Jet:
        """The whole expression; what its roots and logarithms need is known before the first absolute value is taken."""
        if self.rounding or self.inputs:
            Side(self.context, self.whole, False).result()
        return self.jet(self.whole)

    def jet(self, node: Expr) -> Jet:
        return self._number(self.value(node))

    def _number(self, found: Jet | Condition) -> Jet:
        """A truth value as 1 or 0."""
        return self.math.where(found, 1, 0) if isinstance(found, Condition) else found

    def steps(self, node: Apply) -> Expr | None:
        """The operations that an operation consists of."""
        return algorithm(node)

    def bound_value(self, value: Any) -> Poly:
        return self.jet(value).value

    def operand(self, node: Expr) -> Jet | Condition:
        """A value as an operation takes it up."""
        return self.value(node)

    def value(self, node: Expr) -> Jet | Condition:
        if node not in self.memo:
            self.memo[node] = self._compute(node)
        return self.memo[node]

    def _compute(self, node: Expr) -> Jet | Condition:
        match node:
            case Capture(name):
                return self._capture(name, node)
            case Literal(value):
                return self._constant(node, self.math.const(value), exact_literal(value))
            case Size(operand, axes):
                return self.math.size(self.jet(operand), axes)
            case Apply():
                if not (self.rounding and is_constant(node)):
                    return self._apply(node)
                result = self._folded(node)
                if isinstance(result, Condition):
                    return result
                return self._constant(node, result, node.name == "round_to" or whole_number(result.value))
        raise TypeError(f"no expression: {node!r}")

    def _folded(self, node: Apply) -> Jet | Condition:
        """Arithmetic that is done when compiling, exactly."""
        if self.folding is None:
            self.folding = Side(self.context, node, False)
            self.folding.math, self.folding.inputs = self.math, self.inputs
        return self.folding.value(node)

    def _capture(self, name: str, node: Capture) -> Jet | Condition:
        vary = self.context.vary(name)
        if name in self.context.booleans:
            return Condition(("cap", name), vary, node)
        value = of_atom(ErrorAtom("var", (name,), vary, node))
        terms = {self.inputs[name]: ONE} if name in self.inputs else {}
        jet = Jet(self.math, value, terms, vary, node)
        return self._constant(node, jet, name in self.context.whole) if node.const else jet

    def _constant(self, node: Expr, jet: Jet, exact: bool) -> Jet:
        """A number of the program is rounded once to the format that it is used in."""
        if not self.rounding or exact:
            return jet
        size = self.context.algebra.absolute(jet.value)
        if size.zero:
            return jet
        source = self.constants.setdefault(node, Source(size, {}))
        return Jet(self.math, jet.value, {**jet.terms, source: ONE}, jet.vary, jet.like)

    def _apply(self, node: Apply) -> Jet | Condition:
        result: Jet | Condition
        if node.name == "attention" and any(isinstance(self.value(mask), Condition) for mask in node.operands[3:]):
            raise NoErrorFormula("the error of an attention whose mask is a condition")
        steps = self.steps(node)
        if steps is not None:
            return self.value(steps)
        operands = [self.operand(x) for x in node.operands]
        if Kind.TRUTH not in (node.facts.accepts, node.facts.others):
            # a truth value is 1 or 0
            operands = [self._number(x) for x in operands]
        if is_selection(node):
            return self.selection(node, [self._number(x) for x in operands])
        if moves_one_axis(node):
            return self.reshaped(node, self._number(operands[0]))
        if node.name == "conv":
            result, bound = self.conv(node, *(self._number(x) for x in operands))
            return self._with_error(result, bound)
        attributes = {k: self._attribute(v) for k, v in node.attributes}
        self._check_format(node)
        real = node.operation.FACTS.real
        if node.name == "sign" and any(isinstance(x, Jet) and x.terms for x in operands):
            raise NoErrorFormula("an error before a jump may become a whole unit: there is no first order")
        if node.name == "round_to":
            result = operands[0]
        elif real is None:
            raise NoErrorFormula(f"{node.name} has no formula over the reals")
        elif node.operation.FACTS.access is Access.ELEMENTWISE and node.name not in TRANSPARENT:
            result = self._named(node, operands, attributes)
        else:
            result = real(self.math, *operands, **attributes)
        if isinstance(result, tuple):
            raise NoErrorFormula(f"{node.name} has several results")
        if isinstance(result, Condition):
            return result
        return self._rounded(node, result, [x for x in operands if isinstance(x, Jet)])

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, Expr):
            jet = self.jet(value)
            return Jet(self.math, jet.value, {s: c for s, c in jet.terms.items() if s in self.inputs.values()}, jet.vary, jet.like)
        return None if isinstance(value, DTypeOf) else value

    def _named(self, node: Apply, operands: list[Jet | Condition], attributes: dict[str, Any]) -> Jet:
        """The operation's name for its value, and for its derivative that of its formula at the values of the operands."""
        jets = [x for x in operands if isinstance(x, Jet)]
        if len(jets) != len(operands):
            raise NoErrorFormula(f"{node.name} of a truth value")
        seeds = [Source(ONE, x.vary) for x in jets]
        local: Jet = node.operation.FACTS.real(  # type: ignore[misc]
            self.math, *(Jet(self.math, x.value, {s: ONE} if x.terms else {}, x.vary, x.like) for x, s in zip(jets, seeds, strict=True)),
            **attributes,
        )  # fmt: skip
        plain = tuple((k, v) for k, v in node.attributes if not isinstance(v, DTypeOf))
        value = self.context.algebra.function(node.name, *(x.value for x in jets), attributes=plain)
        result = self.math.chain(value, *((local.terms.get(s, ZERO), x) for x, s in zip(jets, seeds, strict=True)))
        result.terms |= {s: result.terms.get(s, ZERO) + c for s, c in local.terms.items() if s not in seeds}
        return result

    # the errors of single operations

    def _check_format(self, node: Apply) -> None:
        for _, target in node.attributes:
            if node.name not in ("cast", "round_to") or isinstance(target, DTypeOf):
                continue
            if not (self.context.narrow and target in WIDE):
                raise NoErrorFormula(f"how the format {target} compares with that of the operands is not known")

    def _rounded(self, node: Apply, jet: Jet, operands: list[Jet]) -> Jet:
        if not self.rounding or self._wide(node):
            return jet
        return self._with_error(jet, self.local(node, jet, operands))

    def _with_error(self, jet: Jet, bound: Poly) -> Jet:
        """The jet with an error of its own."""
        if not self.rounding or bound.zero:
            return jet
        return Jet(self.math, jet.value, {**jet.terms, Source(bound, jet.vary): ONE}, jet.vary, jet.like)

    def _wide(self, node: Expr) -> bool:
        """The node is computed in a wider format than that of the captures."""
        if not self.context.narrow or not isinstance(node, Apply):
            return False
        if node.name == "cast":
            return dict(node.attributes).get("to") in WIDE
        return any(self._wide(x) for x in node.operands)

    def local(self, node: Apply, jet: Jet, operands: list[Jet]) -> Poly:
        """The operation's own error over u."""
        algebra = self.context.algebra
        size = algebra.absolute(jet.value)
        facts = node.facts
        match facts.accumulation:
            case Accumulation.NONE:
                pass
            case Accumulation.CONTRACTION:
                a, b = operands
                n = algebra.size((-1,), a.vary, a.like)
                return n * algebra.matmul(algebra.absolute(a.value), algebra.absolute(b.value), a.like, b.like, (a.vary, b.vary))
            case kind:
                x = operands[0]
                axes = self.math._known(dict(node.attributes)["axes"])
                n = algebra.size(axes, x.vary, x.like)
                if kind is Accumulation.PRODUCT:
                    return (n - ONE) * size
                if kind is Accumulation.COMPENSATED:
                    return algebra.function("minimum", n - ONE, ONE) * size
                if "accumulate" in dict(node.attributes):
                    raise NoErrorFormula("a sum with an accumulation type of its own")
                steps = n - ONE if kind is Accumulation.SUM else self._depth(n)
                return steps * algebra.sum(algebra.absolute(x.value), axes, x.vary, x.like)
        factors = [x.value.constant() for x in operands[facts.scales.start : facts.scales.stop]]
        if any(c is not None and power_of_two(c) for c in factors) or any(node.operands[i] == Literal(Fraction(0)) for i in facts.addends):
            return ZERO
        if node.name in ("cast", "round_to"):
            return size if node.name == "round_to" or self._wide(node.operands[0]) else ZERO
        return size.scale(Fraction(facts.ulps))

    def _depth(self, n: Poly) -> Poly:
        """⌈log₂ n⌉."""
        algebra = self.context.algebra
        return algebra.function("ceil", algebra.function("log2", n))


class Paths(Side):
    """Sensitivities by magnitudes alone: every operand's error counts as one of its own, so that nothing cancels between paths.

    What comes out is the sum over all paths of the products of local Lipschitz constants, each operation being one step.
    """

    def __init__(self, context: RuleContext, whole: Expr, capture: str) -> None:
        super().__init__(context, whole, False, frozenset({capture}))

    def steps(self, node: Apply) -> Expr | None:
        return None

    def operand(self, node: Expr) -> Jet | Condition:
        found = self.value(node)
        if isinstance(found, Condition) or not found.terms:
            return found
        return Jet(self.math, found.value, {Source(found.magnitude(), found.vary, found.exact): ONE}, found.vary, found.like)
def is_constant(node: Expr) -> bool:
    """Return whether the value is known when compiling: only numbers, sizes and constants go in."""
    leaves = [n for n in walk(node) if isinstance(n, Capture | Literal)]
    return all(isinstance(n, Literal) or n.const for n in leaves) and all(n.name != "opaque" for n in walk(node) if isinstance(n, Apply))


def power_of_two(c: Fraction) -> bool:
    """Return whether a multiplication by c is exact (0 included)."""
    n, d = abs(c.numerator), c.denominator
    return not n & (n - 1) and not d & (d - 1)


def exact_literal(value: Fraction | float) -> bool:
    """Return whether bfloat16 and every wider format holds the number: an odd part of at most 8 bits."""
    if isinstance(value, float):
        return False
    n, d = abs(value.numerator), value.denominator
    while n and n % 2 == 0:
        n //= 2
    return n < 256 and not d & (d - 1)


def whole_number(x: Poly) -> bool:
    """Return whether it is a polynomial of sizes with whole coefficients, or a number that every format holds."""
    c = x.constant()
    if c is not None:
        return exact_literal(c)
    return all(
        d.denominator == 1 and all(a.kind == "size" and isinstance(e, int) and e > 0 for a, e in mono) for mono, d in x.terms.items()
    )
