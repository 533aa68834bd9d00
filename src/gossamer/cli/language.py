"""What the library says of its arguments, in the command's words: a user of `--steps` has never seen `steps=`."""

from __future__ import annotations

import re

WORDS = (
    (r"\b\w+\(l2=([^)]*)\)", r"--l2 \1"),
    (r"\bmushrooms\((seed|learners)=([^)]*)\)", r"--\1 \2"),
    (r"\buse GroupNorm, or clip_l[12]\(c, per='round'\)", "use --norm group, or --clip-per round"),
    (r"\bdevice (\S+): torch sees", r"--device \1: torch sees"),
    (r"\bdevice='(\w+)'", r"--device \1"),
    (r"\bNeuralNetwork\(…, dtype=torch\.float64\), or (?=noise at the source)", ""),
    (r"\bclip_l[12]\(c=([^)]*)\)", r"--clip \1"),
    (r"\bclip=clip_l[12]\(c\)", "--clip C"),
    (r"declared feature ranges", "declared columns (--range, --categories)"),
    (r"\bgradient='(\w+)'", r"--gradient \1"),
    (r"\bdraw='(\w+)'", r"--draw \1"),
    (r"\bsplit='([\w-]+)'", r"--split \1"),
    (r" say strict=False \(--no-strict\)", " say --no-strict"),
    (r"\bper_round=", "--per-round "),
    (r"\bper_round\b", "--per-round"),
    (r"\b(steps|seed|horizon|learners|epsilon|delta)=", r"--\1 "),
    (r"\bevaluate_every=", "--evaluate-every "),
    (r"\bfewer steps\b", "fewer --steps"),
    (r"\bsmaller steps\b", "a smaller --step"),
    (r"\bnoise at the source\b(?=\.$)", "noise at the source (--where source)"),
    (r"give a finite horizon, a step exponent above", "give a finite --horizon, a --step exponent above"),
    (r"\bl2 > 0\b", "--l2 above 0"),
)


def translated(sentence: str) -> str:
    for pattern, option in WORDS:
        sentence = re.sub(pattern, option, sentence)
    return sentence
