"""Data, training and evaluation of RA-ISF's sub-models (section 3.2 and appendix A of the paper)."""
