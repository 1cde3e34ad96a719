"""Certificates of rules: those that ship, by a digest of their text and the theory. `make proofs` writes and checks them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path

from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.certificates.checking import CertificateResult, Folder, certificate, coqc, theory_digest
from hnfc.dsl.certificates.statement import statement
from hnfc.dsl.certificates.terms import NoMeaning
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Verdict

TABLE = "certificates.json"

NOT_CHECKED = "not checked: `make proofs` and `hnfc check --coq` check it"


def digest(rule: core.Rule, verdict: Verdict) -> str:
    """A hash of the rule's certificate and of the theory. Raises NoMeaning for a rule that has no statement."""
    text = certificate(statement(rule, verdict), rule.name)
    return hashlib.sha256(f"{theory_digest()}\0{text}".encode()).hexdigest()


@cache
def _shipped() -> dict[str, str]:
    """Answers of coqc to the certificates that ship, by digest: an empty text where it accepts one, else the reason why not."""
    try:
        loaded = json.loads((files("hnfc") / "rules" / TABLE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in loaded.items()} if isinstance(loaded, dict) else {}


def certificates(rules: Iterable[core.Rule], found: Mapping[str, Verdict]) -> dict[str, CertificateResult]:
    """The certificate of each proved rule by name: accepted by Coq's kernel, or the reason why there is none."""
    results = {}
    for rule in rules:
        if found[rule.name].proved:
            try:
                reason = _shipped().get(digest(rule, found[rule.name]), NOT_CHECKED)
            except NoMeaning as missing:
                reason = f"no meaning in the theory: {missing}"
            results[rule.name] = CertificateResult(rule.name, reason)
    return results


def write_shipped(rules: list[core.Rule], directory: Path, table: Path) -> None:
    """Writes and checks the certificate of each proved rule; then the table of the answers."""
    found = verdicts(rules)
    folder, entries = Folder(directory), {}
    folder.compile()
    proved = [rule for rule in rules if found[rule.name].proved]
    accepted = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda rule: folder.write(rule, found[rule.name]), proved)
        for count, (rule, result) in enumerate(zip(proved, results, strict=True), 1):
            accepted += result.accepted
            print(f"{count} of {len(proved)}: {rule.name}: {result.reason or 'accepted'}", file=sys.stderr, flush=True)
            try:
                entries[digest(rule, found[rule.name])] = result.reason
            except NoMeaning:
                continue
    lines = [f"{json.dumps(key)}:{json.dumps(entries[key], ensure_ascii=False)}" for key in sorted(entries)]
    table.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{accepted} of {len(proved)} proofs have a certificate that coqc accepts, in {directory}")


def main() -> int:
    """Checks the certificates of the shipped rules; the exit code."""
    if coqc() is None:
        print("error: coqc is not installed; on Debian: apt-get install coq libcoq-coquelicot libcoq-interval", file=sys.stderr)
        return 2
    write_shipped(shipped().rules, Path(sys.argv[1]), Path(str(files("hnfc"))) / "rules" / TABLE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
