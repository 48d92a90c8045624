"""A folder of training sets in their layouts, small enough to train on in a test."""

from __future__ import annotations

import json
from pathlib import Path

_TOWNS = ["Wick", "Tarn", "Dunmore", "Aldern", "Polva", "Sorrel", "Kember", "Brannt", "Hollin", "Marsk"]
_PEOPLE = ["Ada Moorland", "Bo Reedham", "Cy Holtby", "Di Farrow", "Ed Garnett", "Flo Hask", "Gus Ilford", "Hal Jessop"]


def write_public_data(folder: Path) -> Path:
    """Write squadshifts, 2WikiMultihopQA and HotpotQA files about some people."""
    texts = {}
    for i, name in enumerate(_PEOPLE):
        town, year = _TOWNS[i], 1801 + 7 * i
        texts[name] = [
            f"{name} was a painter.",
            f"She was born in {town} in {year} and painted boats in {_TOWNS[-1 - i]}.",
        ]
    articles, wiki, hotpot = [], [], []
    for i, (name, sentences) in enumerate(texts.items()):
        context = " ".join(sentences)
        town, year = _TOWNS[i], str(1801 + 7 * i)
        asked = [(f"Where was {name} born?", town), (f"When was {name} born?", year)]
        qas = [
            {"id": f"{i}-{k}", "question": q, "answers": [{"text": a, "answer_start": context.index(a)}]}
            for k, (q, a) in enumerate(asked)
        ]
        articles.append({"title": name.replace(" ", "_"), "paragraphs": [{"context": context, "qas": qas}]})
        paragraphs = [[other, texts[other]] for other in [name, *(n for n in texts if n != name)][:4]]
        shared = {"context": paragraphs, "supporting_facts": [[name, 1]]}
        steps = [{"question": asked[0][0], "answer": f"{name} was born in {town}."}]
        more = {"evidences": [[name, "place of birth", town]], "qa_pairs": steps, "type": "comparison"}
        wiki.append({"_id": f"w{i}", "question": f"Was {name} born in {town}?", "answer": "yes", **shared, **more})
        question = f"Which town is the birthplace of {name}?"
        hotpot.append(
            {"_id": f"h{i}", "question": question, "answer": town, "type": "bridge", "level": "easy"} | shared
        )
    (folder / "deeper").mkdir(parents=True)
    (folder / "squadshifts_new_wiki.json").write_text(json.dumps({"data": articles}), "utf-8")
    (folder / "deeper" / "2wiki_train_8.json").write_text(json.dumps(wiki), "utf-8")
    (folder / "deeper" / "hotpot_train_8.json").write_text(json.dumps(hotpot), "utf-8")
    return folder
