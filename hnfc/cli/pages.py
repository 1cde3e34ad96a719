"""Pages of the commands, written where `--report` says. Loaded once there is such an option: templates take time to load."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any

from hnfc.accuracy.improving import ProgramErrors, program_errors
from hnfc.accuracy.reading import NotImproved
from hnfc.cli.terminal import write
from hnfc.frontend.fpcore import FPCoreProgram
from hnfc.pages.analysis import analysis_page as analysis_page
from hnfc.pages.document import Page, PageSection, TableBlock, rendered
from hnfc.pages.model import model_page as model_page
from hnfc.pages.precision import precision_page as precision_page
from hnfc.pages.programs import bounded_page as bounded_page
from hnfc.pages.programs import improved_page as improved_page
from hnfc.pages.rules import check_page as check_page
from hnfc.pages.rules import explain_pages as explain_pages


def write_page(path: str, make: Callable[..., Page], *subject: Any, **more: Any) -> None:
    """Makes the page of a command, with the line that was typed, and writes it."""
    page = make(*subject, command=shlex.join(["hnfc", *sys.argv[1:]]), **more)
    write(path, rendered(page).encode())


def errors_of(program: FPCoreProgram) -> ProgramErrors | str:
    """Errors of a program at points; or the reason why they were not measured."""
    try:
        return program_errors(program)
    except NotImproved as error:
        return str(error)


def table_section(name: str, title: str, intro: str, headings: list[str], rows: list[list[str]]) -> PageSection:
    """A table of a command as a part of its page."""
    return PageSection(name, title, intro, [TableBlock(headings, rows)])
