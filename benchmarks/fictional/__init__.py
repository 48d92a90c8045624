"""The fictional encyclopedia: passages and questions that no language model can have read.

People, films, novels, companies, cities, rivers, countries, bands, albums, universities and appliances with invented
names, in articles of several sentences that word each relation in several ways, among namesakes, codes that differ in a
digit, and articles that no question needs. A right answer therefore comes from retrieval and reading, not from memory.
Most questions need a passage that the question's own words do not find, and a tenth have no answer in any passage.

The encyclopedia is a series of 458 worlds (`fictional.world`) of 312 passages that share no entity. Each
world is the same to the byte on every machine and version of Python. The splits share no wording of a question.

The sample that comes with knowgap is the three worlds of seed 0, one each for train, dev and test;
`benchmarks/write_sample.py` writes its files, or those of another seed.
"""
