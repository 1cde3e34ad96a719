"""A bad step in a folder: tensors as safetensors, the rest as JSON, put there as a whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from hnfc.core.errors import ModelError, UsageError, suggestion
from hnfc.core.saved_steps import STEP, TENSORS
from hnfc.pytorch.saved_calls import arguments_as_data, arguments_from_data
from hnfc.watching.calls import Conditions, ModelCall
from hnfc.watching.faults import Fault
from hnfc.watching.history import History
from hnfc.watching.optimizers import optimizer_as_data, optimizer_of_data
from hnfc.watching.record import BadStep

_VERSION = 1
_RUN = "run.json"


def save(folder: Path, step: BadStep, model: torch.nn.Module, history: History, checkpoint: Path | None = None) -> tuple[Path, int]:
    """Writes a step, the state of model and optimizer before it, and the run until then; the folder and its size in bytes.

    checkpoint: a file of safetensors; parameters that are equal to those in it are left out. Raises UsageError for arguments that a file
    cannot hold, and OSError.
    """
    files = _files()
    call = step.call
    assert call is not None
    tensors: dict[str, torch.Tensor] = {}
    arguments = arguments_as_data([call.args, call.kwargs], tensors)
    conditions = call.conditions
    known = {} if checkpoint is None else files.load_file(checkpoint)
    parameters = dict(model.named_parameters()) if step.start is None else step.start.parameters
    tensors |= {f"parameter.{name}": p for name, p in parameters.items() if not _is_same(p, known.get(name))}
    optimizer = optimizer_as_data(
        step.optimizer if step.start is None else step.start.optimizer, {id(p): name for name, p in parameters.items()}, tensors
    )
    tensors |= {f"buffer.{name}": b for name, b in conditions.buffers.items()}
    tensors |= {f"random.{index}": state for index, state in enumerate(conditions.random)}
    tensors |= {f"gradient.{index}": g for index, g in call.gradients.items()}
    data = {
        "version": _VERSION,
        "torch": torch.__version__,
        "step": step.step,
        "found": [[bad.kind, bad.name, repr(bad.size)] for bad in step.bad],
        "report": str(step),
        "arguments": arguments,
        "autocast": {device: str(dtype) for device, dtype in conditions.autocast.items()},
        "training": conditions.training,
        "scale": call.scale,
        "loss_is_outside": call.criterion is not None,
        "chain": Fault.of(step).chain,
        "checkpoint": None if checkpoint is None else str(checkpoint.resolve()),
        "optimizer": optimizer,
    }
    whole = {name: getattr(t, "_local_tensor", t).detach().cpu().contiguous().clone() for name, t in tensors.items()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".step-"))
    try:
        files.save_file(whole, made / TENSORS)
        (made / STEP).write_text(json.dumps(data, indent=1), encoding="utf-8")
        (made / _RUN).write_text(json.dumps(history.as_data()), encoding="utf-8")
        place = next(p for n in range(1, 1000) if not (p := folder if n == 1 else folder.with_name(f"{folder.name}.{n}")).exists())
        os.chmod(made, 0o755)
        os.replace(made, place)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return place, sum(file.stat().st_size for file in place.iterdir())


def _is_same(p: torch.Tensor, known: torch.Tensor | None) -> bool:
    inside = getattr(p, "_local_tensor", p).detach().cpu()
    return known is not None and known.dtype == inside.dtype and known.shape == inside.shape and torch.equal(known, inside)


def load(folder: Path, model: torch.nn.Module) -> tuple[ModelCall, dict[str, Any], torch.optim.Optimizer | None]:
    """The call in a folder, what else stands there, and the optimizer if it is one of torch's; the model takes the parameters.

    Raises ModelError.
    """
    files = _files()
    data = _data(folder)
    try:
        tensors = files.load_file(folder / TENSORS)
    except (OSError, files.SafetensorError) as error:
        raise ModelError(f"{_UNREADABLE}: {error}", str(folder)) from error
    try:
        parameters = dict(model.named_parameters())
        if data.get("checkpoint"):
            known = files.load_file(data["checkpoint"])
            tensors |= {f"parameter.{name}": known[name] for name in parameters if name in known and f"parameter.{name}" not in tensors}
        _same_names(parameters, tensors, "parameter.", folder)
        with torch.no_grad():
            for name, p in parameters.items():
                p.copy_(tensors[f"parameter.{name}"])
        device = next(iter(parameters.values())).device if parameters else torch.device("cpu")
        args, kwargs = arguments_from_data(data["arguments"], tensors, device)
        conditions = Conditions(
            {name.removeprefix("buffer."): b for name, b in tensors.items() if name.startswith("buffer.")},
            [tensors[f"random.{index}"] for index in range(sum(name.startswith("random.") for name in tensors))],
            {device: getattr(torch, dtype.removeprefix("torch.")) for device, dtype in data["autocast"].items()},
            list(data["training"]),
        )
        gradients = {int(name.removeprefix("gradient.")): g.to(device) for name, g in tensors.items() if name.startswith("gradient.")}
        call = ModelCall(tuple(args), kwargs, conditions, None, gradients, float(data["scale"]))
        call.versions = call.versions_now()
        return call, data, optimizer_of_data(data.get("optimizer"), model, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelError(f"the step does not hold what it should: {error!r}", str(folder / STEP)) from error


_UNREADABLE = "no step of a watched run can be read"


def report_of(folder: Path) -> str:
    """Report of the watch on a step. Raises ModelError."""
    return str(_data(folder).get("report", ""))


def run_of(folder: Path) -> tuple[History, Fault]:
    """The run that led to a step, and what went wrong in it. Raises ModelError."""
    data = _data(folder)
    try:
        history = History.of_data(json.loads((folder / _RUN).read_text(encoding="utf-8")))
        chain = [(str(module), str(name)) for module, name in data["chain"]]
        return history, Fault(int(data["step"]), str(data["report"]), chain)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"the run before the step cannot be read: {error}", str(folder / _RUN)) from error


def _data(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads((folder / STEP).read_text(encoding="utf-8"))
    except OSError as error:
        beside = [path.name for path in folder.parent.iterdir()] if not folder.exists() and folder.parent.is_dir() else []
        meant = suggestion(folder.name, beside)
        raise ModelError(f"{_UNREADABLE}: {error.strerror}: {STEP}{meant}", str(folder)) from error
    except ValueError as error:
        raise ModelError(f"{_UNREADABLE}: {error}", str(folder)) from error
    if not isinstance(data, dict) or data.get("version") != _VERSION:
        raise ModelError(f"{_UNREADABLE}: this hnfc reads version {_VERSION} of {STEP}", str(folder))
    return data


def _files() -> Any:
    """Functions of safetensors. Raises UsageError where it is not installed."""
    try:
        import safetensors.torch as tensors
        from safetensors import SafetensorError
    except ImportError as error:
        raise UsageError("steps are saved by the package safetensors: pip install safetensors; or give folder=None") from error
    return SimpleNamespace(save_file=tensors.save_file, load_file=tensors.load_file, SafetensorError=SafetensorError)


def _same_names(parameters: dict[str, torch.nn.Parameter], tensors: dict[str, torch.Tensor], kind: str, folder: Path) -> None:
    saved = {name.removeprefix(kind): (tuple(t.shape), t.dtype) for name, t in tensors.items() if name.startswith(kind)}
    here = {name: (tuple(p.shape), p.dtype) for name, p in parameters.items()}
    for name in sorted(saved.keys() | here.keys()):
        if saved.get(name) != here.get(name):
            both = f"{here.get(name, 'absent')} here and {saved.get(name, 'absent')} there"
            raise ModelError(f"the model is not the one that was watched: {name} is {both}", str(folder))
