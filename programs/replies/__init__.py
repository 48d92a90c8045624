"""How replies of a language model are asked for and read: the adapter, the fields of a reply, their values."""
