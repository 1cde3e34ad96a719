"""Certificates as files, and their check by `coqc`. The theory is compiled once a folder."""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from hnfc.dsl.certificates.statement import Statement, statement
from hnfc.dsl.certificates.terms import NoMeaning
from hnfc.dsl.core import Rule
from hnfc.dsl.soundness.verdict import Verdict

THEORY = ("Tensors", "Sums", "Special", "Indices", "Shapes", "Scalars", "Identities", "Reductions", "Moves", "Tactics")
"""The files of the theory, each after those that it requires. The definitions, which are trusted, stand in the first."""

AXIOMS = frozenset(
    (
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
        "Classical_Prop.classic",
    )
)
"""Axioms of Coq's real numbers, and functional extensionality: those that a certificate may rest on."""

LIMIT = 30.0
"""Seconds of processor time that a proof may take, so that a busy machine accepts the same proofs."""

PATIENCE = 10
"""Seconds of waiting for each of those, after which a process that does nothing is ended."""

TOO_LONG = "the search for a proof takes too long"
OPEN_GOAL = "the tactics leave a goal open"
INCOMPLETE = "Attempt to save an incomplete proof"

OPEN = ".open.v"
"""Ending of a statement whose proof is not accepted."""


HEADER = "From Coq Require Import Reals List.\nFrom Hnf Require Import Tactics.\nImport ListNotations.\nOpen Scope R_scope.\n"


@dataclass(frozen=True)
class CertificateResult:
    """The certificate of a rule: accepted, or the reason why there is none."""

    rule: str
    reason: str = ""

    @property
    def accepted(self) -> bool:
        return not self.reason

    @property
    def headline(self) -> str:
        return "kernel-checked" if self.accepted else "no certificate"


def theory_text(name: str) -> str:
    return (files("hnfc") / "dsl" / "certificates" / "theory" / f"{name}.v").read_text(encoding="utf-8")


@cache
def theory_digest() -> str:
    """A hash of the whole theory."""
    return hashlib.sha256("\0".join(map(theory_text, THEORY)).encode()).hexdigest()


def certificate(found: Statement, name: str) -> str:
    """The theorem with its proof, as a file of Coq."""
    return _file(found, name, f"Proof.\n  certify.\nQed.\n\nPrint Assumptions {name}.\n")


def open_statement(found: Statement, name: str) -> str:
    """The theorem without a proof, as a file of Coq."""
    return _file(found, name, "Proof.\nAbort.\n")


def _file(found: Statement, name: str, proof: str) -> str:
    return f"{HEADER}\n{found.theorem(name)}\n{proof}"


def coqc() -> str | None:
    """The compiler of Coq, if it is installed."""
    return shutil.which("coqc")


class Folder:
    """A folder with the theory, and with certificates beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "Hnf").mkdir(parents=True, exist_ok=True)
        for name in THEORY:
            (directory / "Hnf" / f"{name}.v").write_text(theory_text(name), encoding="utf-8")
        self.compiled = False

    def compile(self) -> None:
        """Compiles the theory. Raises RuntimeError if Coq does not accept it."""
        if self.compiled:
            return
        for name in THEORY:
            code, text = self._run(f"Hnf/{name}.v", 10 * LIMIT)
            if code:
                raise RuntimeError(f"Hnf/{name}.v: coqc does not accept it: {_first_error(text)}; the theory was written for Coq 8.16")
        self.compiled = True

    def write(self, rule: Rule, verdict: Verdict) -> CertificateResult:
        """Writes the certificate of a proved rule; where Coq is installed, one that it does not accept becomes an open statement."""
        try:
            found = statement(rule, verdict)
        except NoMeaning as missing:
            return CertificateResult(rule.name, f"no meaning in the theory: {missing}")
        path = self.directory / f"{rule.name}.v"
        path.write_text(certificate(found, rule.name), encoding="utf-8")
        if coqc() is None:
            return CertificateResult(rule.name, "not checked: coqc is not installed")
        self.compile()
        reason = self.fault(path.name)
        if reason:
            path.unlink()
            (self.directory / f"{rule.name}{OPEN}").write_text(open_statement(found, rule.name), encoding="utf-8")
        return CertificateResult(rule.name, reason)

    def output(self, name: str) -> str:
        """The output of Coq on the file."""
        return self._run(name, LIMIT)[1]

    def fault(self, name: str, limit: float = LIMIT) -> str:
        """The reason why Coq does not accept the file, or nothing."""
        code, text = self._run(name, limit)
        if code is None:
            return TOO_LONG
        if code:
            return OPEN_GOAL if INCOMPLETE in text else f"coqc does not accept the proof: {_first_error(text)}"
        try:
            further = axioms(text) - AXIOMS
        except ValueError as error:
            return str(error)
        if further:
            return f"the proof rests on {', '.join(sorted(further))}"
        return ""

    def _run(self, name: str, limit: float) -> tuple[int | None, str]:
        """The exit code of coqc, None if it took too long, and its output."""
        program = coqc()
        assert program is not None
        command = [program, "-q", "-w", "none", "-R", "Hnf", "Hnf", name]
        seconds = math.ceil(limit)
        limited = ["sh", "-c", f'ulimit -t {seconds} && exec "$@"', "sh", *command]
        with subprocess.Popen(
            limited, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                text, _ = process.communicate(timeout=PATIENCE * limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None, ""
            return None if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else process.returncode, text


def axioms(output: str) -> frozenset[str]:
    """The axioms that `Print Assumptions` names in the output of Coq. Raises ValueError for an output without its answer."""
    if "Closed under the global context" in output:
        return frozenset()
    _, found, listed = output.partition("Axioms:\n")
    if not found:
        raise ValueError("Print Assumptions printed no answer")
    return frozenset(re.findall(r"^([A-Za-z_][\w.']*)\s*(?=:|$)", listed, re.MULTILINE))


def _first_error(text: str) -> str:
    _, _, error = text.partition("Error:")
    return " ".join(error.split())[:160] or "no message"
