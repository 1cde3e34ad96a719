"""Terms as functions of C and of Python, which compute what FPCore says operation by operation."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hnfc.accuracy.reading import doubles, repeated
from hnfc.accuracy.terms import Term, subterms

_C_KEYWORDS = (
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "if",
    "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while",
)  # fmt: skip
_SHARED = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})", "neg": "(-{0})", "square": "({0} * {0})",
    "reciprocal": "(1.0 / {0})",
}  # fmt: skip
_OF_C = {
    **_SHARED, "rsqrt": "(1.0 / sqrt({0}))", "abs": "fabs({0})", "minimum": "fmin({0}, {1})", "maximum": "fmax({0}, {1})",
    "round": "nearbyint({0})", "relu": "fmax({0}, 0.0)", "sigmoid": "(1.0 / (1.0 + exp(-{0})))", "softplus": "log1p(exp({0}))",
    "logical_and": "({0} && {1})", "logical_or": "({0} || {1})", "logical_not": "(!{0})", "where": "({0} ? {1} : {2})",
    **{name: f"{name}({{0}})" for name in (
        "sqrt", "cbrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
        "exp2", "log2", "log10", "log1p", "expm1", "erf", "erfc", "lgamma", "floor", "ceil", "trunc")},
    **{name: f"{name}({{0}}, {{1}})" for name in ("atan2", "pow", "hypot", "fmod")}, "fma": "fma({0}, {1}, {2})",
}  # fmt: skip
_OF_PYTHON = {
    **_SHARED, "rsqrt": "(1.0 / np.sqrt({0}))", "pow": "np.power({0}, {1})", "minimum": "np.fmin({0}, {1})",
    "maximum": "np.fmax({0}, {1})", "round": "np.rint({0})", "relu": "np.fmax({0}, 0.0)", "sigmoid": "(1.0 / (1.0 + np.exp(-{0})))",
    "softplus": "np.log1p(np.exp({0}))", "logical_and": "({0} & {1})", "logical_or": "({0} | {1})", "logical_not": "(~{0})",
    "where": "np.where({0}, {1}, {2})", "erf": "special.erf({0})", "erfc": "special.erfc({0})", "lgamma": "special.gammaln({0})",
    "asin": "np.arcsin({0})", "acos": "np.arccos({0})", "atan": "np.arctan({0})", "asinh": "np.arcsinh({0})",
    "acosh": "np.arccosh({0})", "atanh": "np.arctanh({0})", "atan2": "np.arctan2({0}, {1})", "hypot": "np.hypot({0}, {1})",
    "fmod": "np.fmod({0}, {1})",
    **{name: f"np.{name}({{0}})" for name in (
        "sqrt", "cbrt", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp2", "log2", "log10", "log1p", "expm1", "floor",
        "ceil", "trunc", "abs")},
}  # fmt: skip
_PREDICATES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class NotWritten(Exception):
    """Reason why a language cannot say a term."""


@dataclass(frozen=True)
class Language:
    """A language that terms are written in. forms: each operation with places for its operands; reserved: names that are taken."""

    name: str
    forms: Mapping[str, str]
    reserved: Collection[str]
    file: Callable[[Sequence[str]], str]
    """A file of the functions."""
    function: Callable[[str, Sequence[str], Sequence[str], str, str], str]
    """A function of its name, parameters, statements, result and comment."""
    definition: str
    """A statement that names a value."""


def written(language: Language, name: str, variables: Sequence[str], term: Term, comment: str, taken: set[str]) -> str:
    """One function. variables: the parameters in order. taken: names of other functions. Raises NotWritten."""
    of_function = _free(name, {*taken, *language.reserved})
    taken.add(of_function)
    used = {of_function, *language.reserved}
    names: dict[Term, str] = {}
    parameters = []
    values = {t.value: t for t in subterms(term) if t.op == "var"}
    for variable in variables:
        parameters.append(_free(variable, used))
        used.add(parameters[-1])
        if variable in values:
            names[values[variable]] = parameters[-1]
    statements = []
    for node in repeated(term):
        text = _expression(language, node, names)
        names[node] = _free("t", used)
        used.add(names[node])
        statements.append(language.definition.format(names[node], text))
    return language.function(of_function, parameters, statements, _expression(language, term, names), comment)


def _expression(language: Language, term: Term, names: Mapping[Term, str]) -> str:
    if term in names:
        return names[term]
    if term.op == "const":
        return _number(term.value)
    operands = [_expression(language, operand, names) for operand in term.args]
    if term.op == "compare":
        return f"({operands[0]} {_PREDICATES[term.value]} {operands[1]})"
    form = language.forms.get(term.op)
    if form is None:
        raise NotWritten(f"{language.name} has no {term.op}")
    return form.format(*operands)


def _number(value: Fraction) -> str:
    text = " / ".join(map(repr, doubles(value)))
    return text if text[0] != "-" and " " not in text else f"({text})"


def _free(name: str, taken: Collection[str]) -> str:
    """The name as an identifier that is not taken."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "f"
    plain = f"f_{plain}" if plain[0].isdigit() else plain
    found, count = plain, 1
    while found in taken:
        count += 1
        found = f"{plain}_{count}"
    return found


def _c_function(name: str, parameters: Sequence[str], statements: Sequence[str], result: str, comment: str) -> str:
    inside = "".join(f"    {statement}\n" for statement in statements)
    listed = ", ".join(f"double {parameter}" for parameter in parameters)
    return f"/* {comment.replace('*/', '* /')} */\ndouble {name}({listed}) {{\n{inside}    return {result};\n}}\n"


def _python_function(name: str, parameters: Sequence[str], statements: Sequence[str], result: str, comment: str) -> str:
    inside = "".join(f"        {statement}\n" for statement in statements)
    arrays = "".join(f"    {parameter} = np.asarray({parameter}, np.float64)\n" for parameter in parameters)
    about = comment.replace("\\", "/").replace('"', "'")
    head = f'def {name}({", ".join(parameters)}):\n    """{about}"""\n'
    return f'{head}{arrays}    with np.errstate(all="ignore"):\n{inside}        return ({result})[()]\n'


def _python_file(functions: Sequence[str]) -> str:
    of_scipy = "from scipy import special\n" if any("special." in text for text in functions) else ""
    return f"import numpy as np\n{of_scipy}\n\n" + "\n\n".join(functions)


def _functions_of(forms: Mapping[str, str]) -> set[str]:
    return {name for form in forms.values() for name in re.findall(r"\b([a-z]\w*)\(", form)}


LANGUAGES = {
    "c": Language(
        "C", _OF_C, {*_C_KEYWORDS, *_functions_of(_OF_C), "main"}, lambda functions: "#include <math.h>\n\n" + "\n".join(functions),
        _c_function, "double {0} = {1};",
    ),
    "python": Language("NumPy", _OF_PYTHON, {*keyword.kwlist, "np", "special"}, _python_file, _python_function, "{0} = {1}"),
}  # fmt: skip
