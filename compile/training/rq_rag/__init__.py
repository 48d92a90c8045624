"""RQ-RAG's generator: transcripts made with a teacher, and a causal model trained on them."""
