#!/usr/bin/env bash
# The main job on the bundled sample, offline, in the commands that one would type; each is shown before it runs.
#
#     ./demo.sh [FOLDER]      what it makes is in FOLDER (demo-output); given again, it takes what is there
#
# KNOWGAP_LM, KNOWGAP_API_BASE and KNOWGAP_LM_OPTIONS name another language model than the embedded reader, and
# KNOWGAP_LIMIT how many questions are compared (100); the study asks at most 40 in each trial.
set -euo pipefail
export KNOWGAP_LM="${KNOWGAP_LM:-extractive}"
folder="${1:-demo-output}"
limit="${KNOWGAP_LIMIT:-100}"
few=$((limit < 40 ? limit : 40))
mkdir -p "$folder"
cd "$folder"

step() { printf '\n\033[1m%s\033[0m\n' "$1"; }
run() { printf '\033[32m$ %s\033[0m\n' "$1"; eval "$1"; }

step "1. The sample, a fictional encyclopedia, is indexed: what is known of it can only come from retrieval"
run 'knowgap index --data sample --index index'

step "2. Plain retrieval reads once; knowgap notices what is missing and looks for it (the encyclopedia says 2,353,418)"
question="What is the population of the birthplace of the producer of the album The Brezetheus Shadow?"
run "knowgap ask \"$question\" --index index --program rag"
run "knowgap ask \"$question\" --index index"

step "3. A question that the encyclopedia does not answer"
run 'knowgap ask "Which company published the novel Lilnagos Rising?" --index index'

step "4. How many rounds pay off? A small study begins with one; its choice is tested on questions that it has not seen, and saved"
run "knowgap compile --set iterations=1 --study include=iterations --data sample --index index --n-trials 3 --limit $few --output-dir study"

step "5. Plain retrieval and knowgap, compared on the test split, question by question"
run "knowgap eval --program rag,knowgap --data sample --index index --limit $limit --output-dir scores"

step "6. The saved program, loaded and called"
run 'cat > call.py <<END
import os, dspy, knowgap
dspy.configure(lm=knowgap.make_lm(os.environ["KNOWGAP_LM"], api_base=os.environ.get("KNOWGAP_API_BASE")))
program = knowgap.load("study/artifact", retriever="index")
print(program(question="Where was the producer of the album The Ruzarion Clockmaker born?").answer)  # Rolvilock
END
python call.py'
