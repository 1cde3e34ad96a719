"""`format` declarations → number formats: by name, or by name and arguments where a declaration has parameters.

A declaration is checked when it is read, but for what depends on parameters that have no default; that is checked when it is called.
Nothing here is trusted: numbers have limits, and names that go round in circles are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from threading import RLock
from typing import Any, TypeAlias

from hnfc.dialects.formats import Format
from hnfc.dsl import syntax
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.expressions import did_you_mean, names_in
from hnfc.dsl.format_kinds import KINDS, FormatKind, Unknown, Value, Word, WrongValue
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file

MAX_BITS = 4096
"""Of the numerators and denominators in declarations; the widest format needs 1100."""
MAX_DEPTH = 100

UNKNOWN = Unknown()

Arguments: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class _Declared:
    declaration: syntax.FormatDeclaration
    file: str

    def error(self, code: str, message: str, span: Span, help_: str = "", note: str = "") -> HnfError:
        return HnfError([Diagnostic(code, message, self.file, span, help=help_, note=note)])


class FormatBook:
    """Formats by name. What it does not declare it takes from the books before it."""

    def __init__(self, before: Callable[[], FormatBook] | None = None) -> None:
        self._declared: dict[str, _Declared] = {}
        self._made: dict[tuple[str, Arguments], Format] = {}
        self._making: list[str] = []
        self._named: dict[str, Format] = {}
        self._before = before
        # what is being made is told from what goes round in circles
        self._lock = RLock()

    def add(self, file: syntax.File) -> None:
        """Adds the declarations of the file; one that is there already, word for word, changes nothing.

        Raises HnfError with every fault in them; then it adds none.
        """
        with self._lock:
            self._add(file)

    def _add(self, file: syntax.File) -> None:
        new: dict[str, _Declared] = {}
        faults: list[Diagnostic] = []
        for declaration in file.declarations:
            if not isinstance(declaration, syntax.FormatDeclaration):
                continue
            declared = _Declared(declaration, file.path)
            other = new.get(declaration.name) or self._find(declaration.name)
            if other is not None and declaration.name not in new and _layout(other.declaration) == _layout(declaration):
                continue
            if other is not None:
                message, note = (
                    f"there are two formats `{declaration.name}`",
                    f"the first is in {other.file}, line {other.declaration.span.line}",
                )
                faults += declared.error("HNF0601", message, declaration.name_span, "give one another name", note).diagnostics
                continue
            new[declaration.name] = declared
        self._declared |= new
        for declared in new.values():
            faults += self._faults(declared)
        if faults:
            for name in new:
                del self._declared[name]
            self._made.clear()
            self._named.clear()
            raise HnfError(faults)

    def format(self, text: str) -> Format:
        """The format of a name (also of an element type, as `f16`), or of a call, as `fixed(3, 4)`. Raises HnfError."""
        with self._lock:
            if text not in self._named:
                self._named[text] = self._read(text)
            return self._named[text]

    def _read(self, text: str) -> Format:
        path = "<format>"
        file = parse(f"format it = {text}", path)
        (declaration, *others) = file.declarations
        if others or not isinstance(declaration, syntax.FormatDeclaration) or declaration.same is None:
            raise HnfError([Diagnostic("HNF0602", f"`{text}` names no format", path)])
        same = declaration.same
        here = _Declared(declaration, path)
        if isinstance(same, syntax.Name) and self._find(same.name) is None:
            named = next((form for form in self.formats() if form.dtype == same.name), None)
            if named is not None:
                return named
        try:
            found = self._format_of(here, self._value(here, same, {}), same.span)
        except HnfError as error:
            raise HnfError([replace(d, span=None) if d.file == path else d for d in error.diagnostics]) from None
        assert isinstance(found, Format)
        return found

    def names(self) -> list[str]:
        """The names of all declarations, also of those with parameters."""
        return [*(self._before().names() if self._before else ()), *self._declared]

    def formats(self) -> list[Format]:
        """Every format that has a value for each of its parameters."""
        found = self._before().formats() if self._before else []
        with self._lock:
            for declared in self._declared.values():
                if all(p.default is not None for p in declared.declaration.parameters):
                    made = self._make(declared, {}, declared.declaration.name_span, declared)
                    found = [*found, made] if isinstance(made, Format) else found
        return found

    def _find(self, name: str) -> _Declared | None:
        return self._declared.get(name) or (self._before()._find(name) if self._before else None)

    # checking

    def _faults(self, declared: _Declared) -> list[Diagnostic]:
        """Faults of a declaration that need no call to show."""
        form = declared.declaration
        faults: list[Diagnostic] = []
        for error in (*self._parameter_faults(declared), *self._field_faults(declared)):
            faults += error.diagnostics
        if not faults:
            required = [p.name for p in form.parameters if p.default is None]
            try:
                self._make(declared, dict.fromkeys(required, UNKNOWN), form.name_span, declared)
            except HnfError as error:
                faults += error.diagnostics
        return faults

    def _parameter_faults(self, declared: _Declared) -> Iterator[HnfError]:
        form = declared.declaration
        seen: list[str] = []
        trees = [
            *(f.value for f in form.fields),
            *([form.same] if form.same is not None else []),
            *(p.default for p in form.parameters if p.default),
        ]
        used = {name.name for tree in trees for name in names_in(tree)}
        for parameter in form.parameters:
            if parameter.name in seen:
                yield declared.error("HNF0603", f"there are two parameters `{parameter.name}`", parameter.span, "give one another name")
            elif parameter.name not in used:
                yield declared.error("HNF0603", f"`{form.name}` does not use its parameter `{parameter.name}`", parameter.span, "remove it")
            if parameter.default is None and any(p.default is not None for p in form.parameters[: len(seen)]):
                yield declared.error("HNF0603", f"`{parameter.name}` has no default, but one before it has", parameter.span, "give it one")
            seen.append(parameter.name)

    def _field_faults(self, declared: _Declared) -> Iterator[HnfError]:
        form = declared.declaration
        kind = KINDS.get(form.kind or "float")
        if form.same is not None:
            return
        if kind is None:
            hint = did_you_mean(form.kind, KINDS) or f"one of {', '.join(KINDS)}"
            yield declared.error("HNF0604", f"there is no kind `{form.kind}` of formats", form.kind_span, hint)
            return
        seen: set[str] = set()
        for field in form.fields:
            if field.name not in kind.fields:
                hint = did_you_mean(field.name, kind.fields) or f"one of {', '.join(kind.fields)}"
                yield declared.error("HNF0605", f"a format of kind `{kind.name}` has no field `{field.name}`", field.name_span, hint)
            elif field.name in seen:
                yield declared.error("HNF0605", f"`{field.name}` is given twice", field.name_span, "remove one")
            seen.add(field.name)
        for name, field_type in kind.fields.items():
            if field_type.required and name not in seen:
                yield declared.error("HNF0606", f"`{form.name}` has no `{name}`", form.name_span, f"add `{name} = …`: {field_type.meaning}")

    # making

    def _make(self, declared: _Declared, given: dict[str, Value], place: Span, caller: _Declared) -> Format | Unknown:
        """Unknown where it depends on what is."""
        form = declared.declaration
        key = form.name, tuple(given.items())
        if key in self._made:
            return self._made[key]
        if form.name in self._making or len(self._making) > MAX_DEPTH:
            chain = " → ".join([*self._making[-5:], form.name])
            raise caller.error("HNF0607", f"the formats need each other: {chain}", place, "remove one reference")
        self._making.append(form.name)
        try:
            scope: dict[str, Value] = {}
            for parameter in form.parameters:
                if parameter.name in given:
                    scope[parameter.name] = given[parameter.name]
                elif parameter.default is not None:
                    scope[parameter.name] = self._value(declared, parameter.default, scope)
            name = form.name + (f"({', '.join(_text(value).strip('`') for value in given.values())})" if given else "")
            made = self._made_of(declared, name, scope)
            if isinstance(made, Format):
                self._made[key] = made
            return made
        finally:
            self._making.pop()

    def _made_of(self, declared: _Declared, name: str, scope: dict[str, Value]) -> Format | Unknown:
        form = declared.declaration
        if form.same is not None:
            same = self._format_of(declared, self._value(declared, form.same, scope), form.same.span)
            return replace(same, name=name) if isinstance(same, Format) else same
        kind = KINDS[form.kind or "float"]
        note = "with " + ", ".join(f"{n} = {_text(v)}" for n, v in scope.items()) if scope else ""
        values: dict[str, Any] = {}
        for field in form.fields:
            value = self._value(declared, field.value, scope)
            try:
                values[field.name] = self._typed(declared, kind, field, value)
            except WrongValue as error:
                raise declared.error(
                    "HNF0608", f"`{field.name}` is {error.expected}, but this is {_text(value)}", field.value.span, error.hint, note
                ) from None
        if UNKNOWN in values.values():
            return UNKNOWN
        try:
            return kind.make(name, values)
        except (ValueError, OverflowError) as error:
            raise declared.error("HNF0609", f"`{name}` is no format: {error}", form.name_span, note=note) from None

    def _typed(self, declared: _Declared, kind: FormatKind, field: syntax.Field, value: Value) -> Any:
        field_type = kind.fields[field.name]
        if field_type.is_format:
            return self._format_of(declared, value, field.value.span)
        return value if isinstance(value, Unknown) else field_type.read(value)

    def _format_of(self, declared: _Declared, value: Value, place: Span) -> Format | Unknown:
        if isinstance(value, Format | Unknown):
            return value
        if not isinstance(value, Word):
            raise declared.error("HNF0602", f"expected a format, but got {_text(value)}", place, "write the name of one")
        return self._called(declared, value, [], {}, place)

    def _called(self, declared: _Declared, name: str, positional: list[Value], keywords: dict[str, Value], place: Span) -> Format | Unknown:
        found = self._find(name)
        if found is None:
            raise declared.error("HNF0602", f"there is no format `{name}`", place, did_you_mean(name, self.names()))
        parameters = [p.name for p in found.declaration.parameters]
        required = [p.name for p in found.declaration.parameters if p.default is None]
        if len(positional) > len(parameters):
            takes = f"takes {len(parameters)} arguments" if parameters else "takes no arguments"
            raise declared.error("HNF0610", f"`{name}` {takes}, but got {len(positional)}", place)
        given = dict(zip(parameters, positional, strict=False))
        for key, value in keywords.items():
            if key not in parameters or key in given:
                what = "is given twice" if key in given else f"is no parameter of `{name}`"
                raise declared.error("HNF0610", f"`{key}` {what}", place, did_you_mean(key, set(parameters) - given.keys()))
            given[key] = value
        if missing := [p for p in required if p not in given]:
            raise declared.error("HNF0610", f"`{name}` needs {' and '.join(missing)}", place, f"as in `{name}({', '.join(required)})`")
        return self._make(found, {p: given[p] for p in parameters if p in given}, place, declared)

    # expressions

    def _value(self, declared: _Declared, tree: syntax.Tree, scope: dict[str, Value], depth: int = 0) -> Value:
        if depth > MAX_DEPTH:
            raise declared.error("HNF0611", "the expression is longer than any format needs", tree.span)
        match tree:
            case syntax.Number():
                return self._limited(declared, tree.value, tree.span)
            case syntax.Name(name=name, const=False):
                return scope.get(name, Word(name))
            case syntax.Operator(symbol="-", operands=(operand,)):
                number = self._number(declared, operand, scope, depth)
                return number if isinstance(number, Unknown) else -number
            case syntax.Operator(symbol="+" | "-" | "*" | "/" | "**", operands=(left, right)):
                x, y = (self._number(declared, operand, scope, depth) for operand in (left, right))
                if isinstance(x, Unknown) or isinstance(y, Unknown):
                    return UNKNOWN
                return self._limited(declared, self._computed(declared, tree, x, y), tree.span)
            case syntax.Call(axes=()):
                positional = [self._value(declared, a, scope, depth + 1) for a in tree.arguments]
                keywords = {key: self._value(declared, a, scope, depth + 1) for key, a in tree.keywords}
                return self._called(declared, tree.function, positional, keywords, tree.span)
        raise declared.error("HNF0611", "expected a number, a word or a format", tree.span, "arithmetic here is + - * / **")

    def _number(self, declared: _Declared, tree: syntax.Tree, scope: dict[str, Value], depth: int) -> Fraction | Unknown:
        value = self._value(declared, tree, scope, depth + 1)
        if isinstance(value, Word):
            raise declared.error("HNF0611", f"`{value}` is no number", tree.span, did_you_mean(value, scope))
        if not isinstance(value, Fraction | Unknown):
            raise declared.error("HNF0611", f"expected a number, but got {_text(value)}", tree.span)
        return value

    def _computed(self, declared: _Declared, tree: syntax.Operator, x: Fraction, y: Fraction) -> Fraction:
        match tree.symbol:
            case "+":
                return x + y
            case "-":
                return x - y
            case "*":
                return x * y
        if tree.symbol == "/" or (tree.symbol == "**" and y < 0):
            if x == 0 if tree.symbol == "**" else y == 0:
                raise declared.error("HNF0611", "division by 0", tree.span)
        if tree.symbol == "/":
            return x / y
        size = max(x.numerator.bit_length(), x.denominator.bit_length())
        if y.denominator != 1 or abs(y) * size > MAX_BITS:
            raise declared.error("HNF0611", f"the exponent {y} is not a small whole number", tree.span)
        return Fraction(x**y.numerator)

    def _limited(self, declared: _Declared, value: Fraction, span: Span) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise declared.error("HNF0611", "the number is longer than any format needs", span)
        return value


def _layout(declaration: syntax.FormatDeclaration) -> str:
    """Content of the declaration, without its position."""
    return print_file(syntax.File("", "", (declaration,)))


def _text(value: Value) -> str:
    match value:
        case Word():
            return f"`{value}`"
        case Format():
            return value.name
        case Unknown():
            return "unknown"
    return str(value) if value.denominator == 1 or value.denominator > 1000 else f"{value.numerator}/{value.denominator}"
