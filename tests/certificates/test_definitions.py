"""The definitions of the theory against `evaluate`: every operation with a meaning in it, at rational points, in and out of its domain."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hnfc.dialects.facts import Access, NoFormula
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.movement import pad
from hnfc.dsl.certificates.checking import Folder
from hnfc.dsl.certificates.terms import CoqTerm, NoMeaning, TermMath, real_number
from tests.dialects.samples import SAMPLES, Sample

HEADER = """From Coq Require Import Reals List Lra Lia ZArith.
From Interval Require Import Tactic.
From Coquelicot Require Import Hierarchy RInt.
From Hnf Require Import Tactics.
Import ListNotations.
Open Scope R_scope.

Ltac computed := cbv -[Rplus Rmult Rminus Rdiv Rinv Ropp IZR INR exp ln sqrt sin cos atan asin acos PI Rabs Rmax Rmin
  Rlt_dec Rle_dec Req_EM_T powerRZ Int_part Rlt Rle not erf bessel_i0] in *; cbn [INR].
Arguments Int_part : simpl never.
Ltac bounds := unfold t_slice, t_pad, t_repeat, is_bound, bound, number; cbn [el shape dom typed]; rewrite ?Int_part_IZR.
Lemma erf_0 x : x = 0 -> erf x = 0.
Proof. intros ->. unfold erf, Tensors.integral. rewrite RInt_point. apply Rmult_0_r. Qed.
Ltac integrals := repeat match goal with |- context [erf ?x] => rewrite (erf_0 x) by (unfold Rdiv; ring) end; try lra;
  unfold erf, bessel_i0, Tensors.integral; integral with (i_prec 80, i_fuel 1000).
Lemma whole_part x n : IZR n <= x < IZR n + 1 -> Int_part x = n.
Proof. intros. unfold Int_part. rewrite <- (tech_up x (n + 1)); rewrite ?plus_IZR; try lra. ring. Qed.
Ltac whole x n := rewrite (whole_part x n) by (split; lra).
Ltac near0 := first [lra | interval | integrals].
Ltac decided := repeat match goal with
  | |- context [Int_part ?x] => first
      [ whole x 0%Z | whole x 1%Z | whole x 2%Z | whole x 3%Z | whole x 4%Z | whole x (-1)%Z | whole x (-2)%Z | whole x (-3)%Z
      | whole x (-4)%Z | whole x 5%Z | whole x 6%Z | whole x 7%Z | whole x (-5)%Z | whole x (-6)%Z | whole x (-7)%Z ]
  | |- context [Rmax ?a ?b] => first [rewrite (Rmax_left a b) by near0 | rewrite (Rmax_right a b) by near0]
  | |- context [Rmin ?a ?b] => first [rewrite (Rmin_left a b) by near0 | rewrite (Rmin_right a b) by near0]
  | |- context [Rabs ?a] => first [rewrite (Rabs_pos_eq a) by lra | rewrite (Rabs_left1 a) by lra]
  | |- context [acos ?x] => rewrite (acos_asin x) by lra
  | |- context [asin ?x] => first
      [ rewrite (asin_atan x) by lra; unfold Rsqr | replace x with 1 by lra; rewrite asin_1
      | replace x with (-(1)) by lra; rewrite asin_opp ]
  | |- context [Rlt_dec ?a ?b] => destruct (Rlt_dec a b); try (exfalso; first [lra | interval]); try lra
  | |- context [Rle_dec ?a ?b] => destruct (Rle_dec a b); try (exfalso; first [lra | interval]); try lra
  | |- context [Req_EM_T ?a ?b] => destruct (Req_EM_T a b) as [E|E]; [try (exfalso; lra)|try (exfalso; apply E; lra)]
  end.
Ltac sizing := bounds; reflexivity.
Ltac typing := bounds; cbn; repeat match goal with
  | |- (_ <= _)%Z => lia
  | |- @eq R _ _ => reflexivity
  | |- _ /\ _ => split
  | |- True => exact I
  | |- fits _ _ => intros [|[|[|[|[|d]]]]]; cbn; tauto
  | |- forall d, _ => intros [|[|[|[|[|d]]]]]; cbn; intros; first [lia | tauto | congruence]
  | |- @eq nat _ _ => reflexivity
  end.
Ltac simple := unfold pow_dom in *; computed; decided.
Ltac positive := first [apply Rgt_not_eq; red; near0 | apply Rlt_not_eq; near0 | near0 | left; near0].
Ltac inside := simple; repeat match goal with |- _ /\ _ => split | |- True => exact I end; positive.
Ltac outside := let H := fresh in intros H; revert H; simple; intros H; decompose [and] H; first
  [ lra
  | match goal with K : 0 < ?e |- _ => assert (e < 0) by interval; lra end
  | match goal with K : _ <> 0 |- _ => first [exact (K sqrt_0) | apply K; lra] end ].
Ltac near := bounds; computed; decided; first [apply Rabs_le; lra | lra | interval with (i_prec 80) | integrals].
"""


def operand(array: Any) -> CoqTerm:
    """A captured tensor with the elements of the array."""
    array = np.asarray(array)
    sizes = " | ".join(f"{a}%nat => {n}%nat" for a, n in enumerate(reversed(array.shape)))
    shape = f"(fun a => match a with {sizes + ' | ' if sizes else ''}_ => 1%nat end)"
    place, stride = "0%nat", 1
    for a, n in enumerate(reversed(array.shape)):
        place, stride = f"({place} + {stride} * i {a}%nat)%nat", stride * n
    if array.dtype == bool:
        values = "; ".join(str(bool(v)).lower() for v in array.ravel())
        return CoqTerm(f"(mask_capture {shape} (fun i => nth {place} [{values}] false))", truth=True)
    values = "; ".join(real_number(Fraction(float(v))) for v in array.ravel())
    return CoqTerm(f"(capture {shape} (fun i => nth {place} [{values}] 0))")


def rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if array.dtype == bool else np.round(array * 4) / 4


def from_the_right(attributes: dict[str, Any], rank: int) -> dict[str, Any]:
    return {k: tuple(a - rank for a in v) if k == "axes" else v for k, v in attributes.items()}


def meanings() -> Iterator[tuple[str, Sample]]:
    """Samples of every operation that has a meaning in the theory."""
    for name, samples in SAMPLES.items():
        for sample in samples:
            if OPERATIONS[name].FACTS.real is not None and sample.real and sample.operands(0)[0].ndim and sample.operands(0)[0].size:
                yield name, sample


def goals(name: str, sample: Sample, number: int, whole: bool) -> list[str]:
    """Theorems: the sizes of the result of an operation, and some of its elements."""
    facts = OPERATIONS[name].FACTS
    arrays = [rounded(x) for x in sample.operands(number)]
    attributes = from_the_right(sample.attributes, arrays[0].ndim)
    assert facts.real is not None and facts.evaluate is not None
    term = facts.real(TermMath(), *map(operand, arrays), **attributes)
    with np.errstate(all="ignore"):
        return equations(term, np.asarray(facts.evaluate(*arrays, **sample.attributes)), whole)


def every_element(term: CoqTerm, expected: np.ndarray[Any, Any]) -> list[str]:
    return equations(term, expected, places=list(itertools.product(*map(range, expected.shape))))


def equations(term: CoqTerm, expected: np.ndarray[Any, Any], whole: bool = True, places: Sequence[Any] | None = None) -> list[str]:
    """Theorems: the sizes, the type, and the elements at the places (the last one, and the first if `whole`, where none are given)."""
    found = [f"Goal shape {term.number} {a}%nat = {n}%nat. sizing. Qed." for a, n in enumerate(reversed(expected.shape))]
    found.append(f"Goal typed {term.number}. typing. Qed.")
    if places is None:
        indices = list(itertools.product(*map(range, expected.shape)))
        places = sorted({indices[0], indices[-1]} if whole else {indices[-1]})
    for place in places:
        value = float(expected[place])
        if np.isfinite(value):
            index = " | ".join(f"{a}%nat => {n}%nat" for a, n in enumerate(reversed(place)))
            element = f"el {term.number} (fun a => match a with {index} | _ => 0%nat end)"
            margin = Fraction(max(1.0, abs(value))) / 10**9
            found.append(f"Goal Rabs ({element} - {real_number(Fraction(value))}) <= {real_number(margin)}. near. Qed.")
    return found


MATRIX = np.arange(6.0).reshape(2, 3)


def movements() -> Iterator[str]:
    """Theorems about movements that rules name by axes from the right."""
    math = TermMath()
    yield from equations(math.transpose(operand(MATRIX), "last_two"), MATRIX.T)
    yield from equations(math.unsqueeze(operand(MATRIX), -2), MATRIX[:, None, :])
    yield from equations(math.unsqueeze(operand(MATRIX), -1), MATRIX[:, :, None])
    yield from equations(math.squeeze(operand(MATRIX[:, None, :]), -2), MATRIX)
    yield from equations(math.squeeze(operand(MATRIX[:, :, None]), -1), MATRIX)
    yield from equations(math.reverse(operand(MATRIX), (-1,)), MATRIX[:, ::-1])
    yield from equations(math.reverse(operand(MATRIX), (-2, -1)), MATRIX[::-1, ::-1])
    yield from equations(math.repeat(operand(MATRIX[:1]), -2, 4), np.repeat(MATRIX[:1], 4, axis=0))
    parts = [operand(MATRIX), operand(MATRIX[:, :1] + 10), operand(MATRIX + 20)]
    yield from every_element(math.concat(parts, -1), np.concatenate([MATRIX, MATRIX[:, :1] + 10, MATRIX + 20], axis=1))
    yield from every_element(math.concat(parts[::2], -2), np.concatenate([MATRIX, MATRIX + 20]))
    row = operand(np.arange(7.0))
    for start, stop, step in ((0, 7, 1), (2, 5, 1), (1, 7, 2), (1, 6, 2), (2, 3, 3), (3, 3, 1)):
        yield from every_element(math.slice(row, -1, start, stop, step), np.arange(7.0)[start:stop:step])
    for low, high in ((0, 0), (1, 2), (-2, 1), (3, -1), (-2, -4)):
        yield from every_element(math.pad(operand(MATRIX.ravel()), -1, low, high, Fraction(3, 2)), pad(MATRIX.ravel(), [low], [high], 1.5))


def with_meaning(least: int) -> dict[str, list[str]]:
    """At least so many theorems for every operation."""
    found: dict[str, list[str]] = {}
    for number, (name, sample) in enumerate(meanings()):
        if len(found.get(name, ())) < least:
            try:
                found.setdefault(name, []).extend(goals(name, sample, number, least > 1))
            except (NoMeaning, NoFormula):
                continue
    return {name: texts for name, texts in found.items() if texts}


@pytest.mark.parametrize("least", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_definitions_agree_with_evaluate(folder: Folder, least: int) -> None:
    texts = with_meaning(least)
    assert len(texts) > 70
    lines = [text for several in texts.values() for text in several] + list(movements())
    (folder.directory / "definitions.v").write_text(HEADER + "\n".join(lines) + "\n\nDefinition done := 0.\nPrint Assumptions done.\n")
    assert folder.fault("definitions.v", limit=300.0) == ""


POINTS = np.array([-2.0, -1.0, 0.0, 0.5, 2.0])


def domains() -> Iterator[str]:
    """Theorems: a function of one operand has a value exactly at the points at which floating point gives a finite one."""
    for name, samples in SAMPLES.items():
        facts, sample = OPERATIONS[name].FACTS, samples[0]
        if facts.real is None or facts.access is not Access.ELEMENTWISE or sample.attributes or len(sample.shapes) != 1 or sample.kinds:
            continue
        try:
            term = facts.real(TermMath(), operand(POINTS)).number
        except NoMeaning:
            continue
        assert facts.evaluate is not None
        with np.errstate(all="ignore"):
            finite = np.isfinite(np.asarray(facts.evaluate(POINTS)).astype(float))
        for place, known in enumerate(finite):
            yield f"Goal {'' if known else '~ '}dom {term} (fun _ => {place}%nat). {'inside' if known else 'outside'}. Qed."


def test_domains_agree_with_evaluate(folder: Folder) -> None:
    lines = list(domains())
    assert sum("outside" in line for line in lines) > 15
    (folder.directory / "domains.v").write_text(HEADER + "\n".join(lines) + "\n\nDefinition done := 0.\nPrint Assumptions done.\n")
    assert folder.fault("domains.v", limit=300.0) == ""


@pytest.mark.parametrize(
    "wrong",
    [
        "el (t_sum [0%nat] (capture (fun a => match a with 0%nat => 3%nat | _ => 1%nat end) (fun i => 2))) (fun _ => 0%nat) - 2",
        "el (t_sub (number 1) (number 3)) (fun _ => 0%nat) - 2",
    ],
)
def test_a_wrong_value_is_not_accepted(folder: Folder, wrong: str) -> None:
    (folder.directory / "wrong.v").write_text(f"{HEADER}Goal Rabs ({wrong}) <= 1 / 1000. near. Qed.\nPrint Assumptions Rplus.\n")
    assert folder.fault("wrong.v")
