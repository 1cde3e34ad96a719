"""An assignment as regions of torch.autocast: modules that run in a narrow format, and modules that do not."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hnfc.formats.scaled import ceiling, split
from hnfc.precision.cast_insertion import DTYPES
from hnfc.precision.policy import SemanticDType
from hnfc.precision.values import PrecisionSites

_NARROW = ("bf16", "fp16")


@dataclass(frozen=True)
class AmpConfig:
    """enabled: by the path of a module ("" is the model itself) whether autocast is on in it; modules not named are like their parent."""

    device: str
    dtype: torch.dtype
    enabled: Mapping[str, bool]

    @contextlib.contextmanager
    def on(self, model: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """Within the block the model runs region by region in autocast; where that is off, in float32. Raises AttributeError for a model
        without one of the modules."""
        changed = []
        try:
            for path, enabled in self.enabled.items():
                module = model.get_submodule(path)
                plain = module.forward
                module.forward = partial(self._forward, plain, enabled)
                changed.append(module)
            yield model
        finally:
            for module in changed:
                # the class's own forward shows again
                module.__dict__.pop("forward", None)

    def _forward(self, plain: Any, enabled: bool, *args: Any, **kwargs: Any) -> Any:
        with torch.autocast(self.device, dtype=self.dtype, enabled=enabled):
            if enabled:
                return plain(*args, **kwargs)
            wide = torch.utils._pytree.tree_map(self._widened, (args, kwargs))
            return plain(*wide[0], **wide[1])

    def _widened(self, value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == self.dtype else value

    def as_dict(self) -> dict[str, Any]:
        return {"device_type": self.device, "dtype": str(self.dtype).removeprefix("torch."), "enabled": dict(self.enabled)}


def amp_config(sites: PrecisionSites, formats: Mapping[str, str], device: str) -> AmpConfig:
    """A module is narrow where everything that it computes by itself is."""
    narrow: dict[str, bool] = {"": False}
    found: Counter[str] = Counter()
    for site in sites.sites:
        if site.role is SemanticDType.PARAM:
            continue
        # masks become infinite in autocast
        form = formats[site.name] if ceiling(formats[site.name]) is None else split(formats[site.name])[0]
        if form in _NARROW:
            found[form] += site.elements
        if site.module:
            narrow[site.module] = narrow.get(site.module, True) and form in _NARROW
    common = found.most_common(1)
    return AmpConfig(device, DTYPES[common[0][0]] if common else torch.bfloat16, narrow)
