"""RQ-RAG's generator: control tokens, the layout of its transcripts, and tree decoding with shared prefixes."""
