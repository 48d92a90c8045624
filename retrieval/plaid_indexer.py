"""colbert-ai's indexer with our encoder. Importing this imports colbert-ai."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from colbert.data import Collection
from colbert.indexing.collection_indexer import CollectionIndexer
from colbert.indexing.index_saver import IndexSaver

from knowgap.retrieval.colbert.encoder import TokenEncoder
from knowgap.retrieval.index.passage_store import PassageStore
from knowgap.storage.progress import Progress


class Indexer(CollectionIndexer):
    """Has colbert-ai sample, cluster and compress what our encoder makes of the passages, without a GPU."""

    def __init__(  # the parent's would load the checkpoint by itself
        self, config: Any, store: PassageStore, encoder: TokenEncoder, report: Progress
    ) -> None:
        self.verbose, self.rank, self.nranks, self.use_gpu = 0, 0, 1, False
        self.config, self.saver, self.encoder = config, IndexSaver(config), self
        self.store, self.tokens, self.report = store, encoder, report
        self.collection = Collection(data=[str(passage) for passage in store])
        self.encoded: Any = None

    def encode_passages(self, texts: list[str]) -> Any:
        """Vectors [tokens, dim] of all texts, and the number of tokens of each."""
        if len(texts) < len(self.store) or self.encoded is None:  # of a small collection, the sample is the only chunk
            self.report(0, len(self.store), "encoding passages")
            vectors, lengths = self.tokens.encode_passages(texts)
            self.encoded = torch.from_numpy(vectors.astype(np.float32)), lengths.tolist()
        return self.encoded

    def _train_kmeans(self, sample: Any, shared_lists: Any) -> Any:  # the parent's wants a GPU where there is one
        import faiss

        kmeans = faiss.Kmeans(self.config.dim, self.num_partitions, niter=self.config.kmeans_niters, seed=123)
        kmeans.train(sample.float().numpy())
        return torch.nn.functional.normalize(torch.from_numpy(kmeans.centroids), dim=-1)
