"""Constants of docs/scale.md, in seconds of one processor and bytes, and a third size beside what two sizes predict of it.

`python benchmarks/scale.py [layers rules programs weights]`; of two measurements of a size the shorter one counts.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))


def layers(count: int) -> float:
    """Seconds of `hnfc.optimize` on so many layers."""
    import hnfc

    model = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True) for _ in range(count))).eval()
    return _seconds(lambda: hnfc.optimize(model, torch.randn(2, 6, 32)))


def rules(count: int) -> float:
    """Seconds of proofs of so many shipped rules, none of which is known."""
    from hnfc.dsl.rulebook import shipped
    from hnfc.dsl.soundness import prove

    chosen = shipped().rules[:: len(shipped().rules) // count][:count]
    print(f"  a rule is {sum(len(pickle.dumps(rule)) for rule in chosen) / count:,.0f} bytes to send")
    return _seconds(lambda: [prove(rule) for rule in chosen])


def programs(count: int) -> float:
    """Seconds of `-O accuracy` on so many FPCore programs, which differ by a number."""
    from hnfc.accuracy import ImprovementSettings, improve, rules_for_programs
    from hnfc.frontend.fpcore import programs as read

    text = "\n".join(f"(FPCore p{place} (x) :pre (<= 1 x 1e6) (- (sqrt (+ x {place + 1})) (sqrt x)))" for place in range(count))
    chosen, found = list(read(text)), rules_for_programs()
    made = []
    seconds = _seconds(lambda: made.extend(improve(program, found, ImprovementSettings()) for program in chosen))
    sent, returned = (sum(len(pickle.dumps(one)) for one in several) / count for several in (chosen, made))
    print(f"  a program is {sent:,.0f} bytes to send, and its result {returned:,.0f}")
    return seconds


def weights(count: int) -> float:
    """Seconds of `hnfc.sharded.precision` on a model of so many layers of 200,000 weights each."""
    from sharded import write_model

    from hnfc import sharded

    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "model", count, 128, 500)
        sample = {"input_ids": torch.arange(64)[None]}
        formats = ("int8", "int4/group32")
        return _seconds(lambda: sharded.precision(sharded.open_folder(Path(folder) / "model"), sample, Path(folder) / "out", 0.5, formats))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


KINDS: dict[str, tuple[Callable[[int], float], tuple[int, int, int]]] = {
    "layers": (layers, (4, 8, 16)), "rules": (rules, (20, 40, 80)), "programs": (programs, (4, 8, 16)), "weights": (weights, (4, 8, 16)),
}  # fmt: skip
"""By kind of work its measurement, two sizes, and the one that is predicted."""


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or KINDS:
        measure, (small, middle, large) = KINDS[name]
        measure(small)  # what is loaded once
        one, two, three = (min(measure(size), measure(size)) for size in (small, middle, large))
        each = (two - one) / (middle - small)
        predicted = one + each * (large - small)
        beside = f"{large} took {three:.3g} s, {three / predicted:.2f} of predicted"
        print(f"{name}: {each:.3g} s each, {one - each * small:.3g} s once; {beside}")


if __name__ == "__main__":
    main()
