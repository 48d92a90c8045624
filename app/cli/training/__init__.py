"""The group of commands `knowgap train`: one file for each kind of model."""
