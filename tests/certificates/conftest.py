"""A folder with the compiled theory, once a session; tests that need Coq are skipped without it."""

from __future__ import annotations

import pytest

from hnfc.dsl.certificates.checking import Folder, coqc


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    if coqc() is None:
        pytest.skip("coqc is not installed (make proofs installs it)")
    made = Folder(tmp_path_factory.mktemp("certificates"))
    made.compile()
    return made
