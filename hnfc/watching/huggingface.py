"""`hnfc.watch` around the Trainer of transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from hnfc.watching.loop import Watch


class WatchTrainer(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Callback for a Trainer: at the first number that is not finite, training ends without the update of that step.

    options: those of `hnfc.watch`. `watch` is the Watch once training has begun.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"stop": "skip", **options}
        self.watch: Watch | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self.watch = Watch(given["model"], **self._options)
        self.watch.__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.watch is not None and self.watch.bad and self._options["stop"] is not False:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self.watch is not None:
            self.watch.__exit__(None, None, None)
