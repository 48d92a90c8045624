"""Indexes that others built: FAISS and Lucene folders, PLAID, search servers."""
