import numpy as np
import torch

from knowgap.retrieval.device import half_precision
from knowgap.retrieval.minilm import padded_batches


def test_batches_have_one_width():
    texts = [[7] * length for length in (3, 16, 17, 40, 5, 33, 16, 600)]
    batches = list(padded_batches(texts, 48))
    assert [(batch, ids.shape[1]) for batch, ids, _ in batches] == [
        ([0, 1, 4], 16), ([6], 16), ([2], 32), ([3], 48), ([5], 48), ([7], 608),
    ]  # fmt: skip
    for batch, ids, attention in batches:
        np.testing.assert_array_equal(ids == 7, attention == 1)
        np.testing.assert_array_equal(ids == 0, attention == 0)
        assert attention.sum(1).tolist() == [len(texts[i]) for i in batch]


def test_a_processor_computes_in_single_precision():
    with half_precision("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
