"""Parameters of a rule, which `for` declares: names of the right side only, each with a condition on its values."""

from __future__ import annotations

from abc import abstractmethod

from hnfc.dialects.types import ELEMENT_TYPES
from hnfc.dsl import core, syntax
from hnfc.dsl.expressions import CONSTANTS, TRUTHS, Expressions, names_in
from hnfc.dsl.scope import Scope


class RuleParameters(Expressions):
    """Reads `for` clauses. A condition on a parameter speaks of no value of the left side, so that whatever that side matches, there is
    a value for the parameter or there never is one."""

    @abstractmethod
    def condition(self, tree: syntax.Tree, scope: Scope) -> core.Condition: ...

    def declared_parameters(self, declaration: syntax.RuleDeclaration, scope: Scope) -> list[str]:
        """The names that the clause declares, which the scope binds from here on."""
        found: list[str] = []
        for parameter in declaration.parameters:
            if declaration.arrow != "=>":
                message = f"a rule with parameters is written with `=>`, not `{declaration.arrow}`"
                help_ = "write `=>`: from right to left a parameter would have no value"
                raise self.error("HNF0245", message, declaration.arrow_span, help_)
            name = self._declared(parameter)
            if name.name in scope.bindings and name.name not in found:
                help_ = "give the parameter another name; a condition on a captured value stands after `where`"
                raise self.error("HNF0246", f"the parameter `{name.name}` occurs on the left side", parameter.span, help_)
            if name.name in found:
                help_ = "join its conditions with `and`"
                raise self.error("HNF0246", f"the parameter `{name.name}` is declared twice", parameter.span, help_)
            if name.name in scope.lets or name.name in CONSTANTS or name.name in TRUTHS or name.name in ELEMENT_TYPES:
                raise self.error("HNF0246", f"`{name.name}` has a meaning already", parameter.span, "give the parameter another name")
            scope.bindings[name.name] = core.Capture(name.name, const=name.const)
            found.append(name.name)
        return found

    def _declared(self, parameter: syntax.RuleParameter) -> syntax.Name:
        """The name that one entry declares. Raises HnfError where that is not clear."""
        names = {name.name: name for name in names_in(parameter.condition) if name.name not in CONSTANTS and name.name not in TRUTHS}
        plain = isinstance(parameter.condition, syntax.Name | syntax.Operator) and not _annotated(parameter.condition)
        if len(names) == 1 and plain:
            # `const` may stand at any place of the name
            const = any(name.const for name in names_in(parameter.condition))
            name = next(iter(names.values()))
            return syntax.Name(name.name, name.span, const)
        help_ = "as in `for s > 0`, `for c`, `for const c != 0` or `for orthogonal h`; several are separated by commas"
        raise self.error("HNF0247", "`for` takes a name, or a condition on one name and numbers", parameter.span, help_)

    def with_parameters(
        self, declaration: syntax.RuleDeclaration, replacement: core.Expr, where: core.Condition, when: core.Condition, scope: Scope
    ) -> core.Condition:
        """The rule's condition together with those on its parameters. Raises HnfError for a parameter that is not used, and for a
        condition that ties one to a captured value."""
        names = {self._declared(parameter).name: parameter for parameter in declaration.parameters}
        used = core.captures(replacement)
        for name, parameter in names.items():
            if name not in used:
                raise self.error("HNF0248", f"the right side does not use the parameter `{name}`", parameter.span, "remove it")
        if declaration.when is not None and _named(when) & names.keys():
            (name, *_) = sorted(_named(when) & names.keys())
            message = f"`when` speaks of the parameter `{name}`, which has no value in the model"
            raise self.error("HNF0249", message, declaration.when.span, "state it after `for` or `where`")
        if declaration.where is not None:
            for name in sorted(names):
                fault = _tied(name, names[name].orthogonal, core.conjuncts(where))
                if fault:
                    help_ = "a condition on a parameter speaks of one parameter and numbers, or gives it the size of a captured value"
                    raise self.error("HNF0249", fault, declaration.where.span, help_)
        parts = [] if where == core.TRUE else [where]
        for name, parameter in names.items():
            capture = scope.bindings[name]
            if parameter.orthogonal:
                parts.append(core.Property(core.ORTHOGONAL, (capture,)))
            elif not isinstance(parameter.condition, syntax.Name):
                parts.append(self.condition(parameter.condition, scope))
        return core.AllOf(tuple(parts))


def _annotated(tree: syntax.Tree) -> bool:
    return isinstance(tree, syntax.Annotated) or (isinstance(tree, syntax.Operator) and any(map(_annotated, tree.operands)))


def _named(condition: core.Condition) -> set[str]:
    return {name for expression in core.condition_expressions(condition) for name in core.captures(expression)}


def _tied(name: str, orthogonal: bool, parts: list[core.Condition]) -> str:
    """The reason why conditions on the parameter may be conditions on captured values; empty if they are none.

    One that may have any size along an axis can be given that of a captured value; one whose size is fixed there otherwise cannot.
    """
    sized: list[core.Axis] = []
    for part in parts:
        if name not in _named(part):
            continue
        if _named(part) == {name}:
            continue
        match part:
            case core.SameSize(core.Capture(one), core.Capture(other), axes) if {one, other} > {name}:
                sized += axes
            case _:
                others = " and ".join(f"`{other}`" for other in sorted(_named(part) - {name}))
                return f"the condition ties the parameter `{name}` to {others}"
    fixed = [axis for part in parts if isinstance(part, core.Free) and _named(part) == {name} for axis in part.axes]
    ranked = any(isinstance(part, core.Property) and part.name == "rank" and _named(part) == {name} for part in parts)
    if sized and (ranked or (core.ALL in sized + fixed and len(sized + fixed) > 1) or len(set(sized + fixed)) < len(sized + fixed)):
        return f"the size of the parameter `{name}` is fixed twice, which is a condition on captured values"
    if orthogonal and len(sized) > 1:
        return f"the matrix `{name}` is square, and its sizes are fixed twice"
    return ""
