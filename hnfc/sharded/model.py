"""A model without its weights: a module on the meta device, made from the config.json of a folder or by the caller, and its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hnfc.core.errors import ModelError, UsageError, first_line
from hnfc.core.plain_files import read_json
from hnfc.sharded.checkpoint import Checkpoint

CONFIG = "config.json"


@dataclass
class ShardedModel:
    """A module on the meta device, and where its tensors are. kept: those that are in memory, buffers that no file has."""

    module: torch.nn.Module
    checkpoint: Checkpoint
    kept: dict[str, torch.Tensor]
    config: dict[str, Any]
    """Content of config.json; empty without one."""
    sources: dict[str, str]
    """By name of a parameter or buffer its name in the files."""

    @staticmethod
    def of(module: torch.nn.Module, folder: str | Path, config: Mapping[str, Any] | None = None) -> ShardedModel:
        """A module with the tensors of a folder; the module itself is moved to the meta device. What no file has must hold numbers before.

        Raises ModelError for a tensor that is missing or has another shape.
        """
        checkpoint = Checkpoint(folder)
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        aliases: dict[int, list[str]] = {}
        for name, tensor in named:
            aliases.setdefault(id(tensor), []).append(name)
        sources, kept = dict[str, str](), dict[str, torch.Tensor]()
        for name, tensor in named:
            source = next((alias for alias in aliases[id(tensor)] if alias in checkpoint.tensors), None)
            if source is not None:
                found = checkpoint.tensors[source]
                if found.shape != tuple(tensor.shape):
                    raise ModelError(f"{name} is {list(tensor.shape)} in the model and {list(found.shape)} in the file", str(found.file))
                sources[name] = source
            elif tensor.is_meta:
                raise ModelError(f"no file has the tensor {name}, and the module has no numbers for it", str(folder))
            else:
                kept[name] = tensor.detach()
        return ShardedModel(module.to("meta"), checkpoint, kept, dict(config or {}), sources)

    @property
    def dtypes(self) -> dict[str, torch.dtype]:
        """Types of parameters and buffers as the model has them."""
        named = (*self.module.named_parameters(remove_duplicate=False), *self.module.named_buffers(remove_duplicate=False))
        return {name: tensor.dtype for name, tensor in named}

    def read(self, names: list[str]) -> dict[str, torch.Tensor]:
        """Tensors by their names in the model, in the types that it has; those of files are mapped."""
        stored = self.checkpoint.read(dict.fromkeys(self.sources[name] for name in names if name in self.sources))
        dtypes = self.dtypes
        return {name: self.kept[name] if name in self.kept else stored[self.sources[name]].to(dtypes[name]) for name in names}


def open_folder(folder: str | Path) -> ShardedModel:
    """The model of a folder in the layout of Hugging Face: config.json and safetensors files. Code that a folder brings is not run.

    Raises UsageError without the package transformers, and ModelError for a folder that is faulty or a model that it does not know.
    """
    path = Path(folder) / CONFIG
    try:
        config = read_json(path)
        (architecture, *_) = config["architectures"]
    except FileNotFoundError:
        raise ModelError(f"the folder has no {CONFIG}", str(folder)) from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ModelError(f"it is no configuration of a model with `architectures`: {error!r}", str(path)) from None
    if "quantization_config" in config:
        raise ModelError("the weights are quantized already; give the folder of the original", str(path))
    try:
        import transformers
    except ImportError as error:
        raise UsageError(f"a folder of a model needs transformers, which cannot be loaded ({error}): pip install transformers") from None
    made: Any = getattr(transformers, str(architecture), None)
    known = isinstance(made, type) and issubclass(made, transformers.PreTrainedModel)
    if not known:
        raise ModelError(f"transformers {transformers.__version__} has no model {architecture}", str(path))
    try:
        settings = made.config_class.from_pretrained(folder, local_files_only=True)
        settings.use_cache = False
        _check_layers(getattr(settings, "num_hidden_layers", 0), folder)
        dtype = getattr(settings, "dtype", None) or torch.float32
        with parameters_on_meta():
            module = made._from_config(settings, dtype=dtype)
    except ModelError:
        raise
    except Exception as error:  # whatever the model's own code raises of its settings
        raise ModelError(f"transformers cannot make {architecture}: {first_line(error)[:200]}", str(path)) from error
    return ShardedModel.of(module.eval(), folder, config)


def _check_layers(layers: Any, folder: str | Path) -> None:
    """Raises ModelError for more layers than the files have tensors: making them would take hours before the first one is missed."""
    stored = len(Checkpoint(folder).tensors)
    if isinstance(layers, int) and layers > stored:
        raise ModelError(f"the configuration has {layers} layers, and the files have {stored} tensors", str(Path(folder) / CONFIG))


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Lets modules that are made inside have parameters without numbers; buffers are computed as always."""
    register = torch.nn.Module.register_parameter

    def on_meta(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        if parameter is not None and not parameter.is_meta:
            parameter = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = on_meta  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
