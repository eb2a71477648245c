"""Three stages of a vision-language model on real pictures with their names (twemoji, 1,853 without
skin tones), and what each stage knows of the image.

`python benchmarks/vision_language.py --data FOLDER` reads `captions.csv` and `images/` of the set,
and JSON texts of the Alpaca demo beside it for the decoder; runs stand in the working folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import polars as pl

LETTERS = 400_000
DATA = (
    "{kind: captions, path: names.csv, root: FOLDER, vocabulary: tokenizer, "
    "tokenizer: base/tokenizer.json, validation: 0.1, test: 0.2, "
    "decoding: {size: [32, 32]}, augment: {crop: 2}}"
)
STAGES = {
    "words": """\
task: generation
data: {kind: tokens, path: texts.txt, vocabulary: bpe, vocabulary_size: 1000}
model: {kind: gpt, norm: rms, feed_forward: swiglu, tied: false, layers: 3, heads: 4, width: 96,
        context: 64}
training: {batch_size: 32, num_epochs: 1, optimizer: {learning_rate: 0.003}}
metric: {name: perplexity, target: baseline}
""",
    "eyes": """\
task: retrieval
data: {kind: pairs, path: names.csv, root: FOLDER, validation: 0.1, test: 0.2,
       decoding: {size: [32, 32]}, augment: {crop: 2}}
model: {kind: dual_encoder, width: 96, image: {kind: resnet, width: 24, stem: half},
        text: {kind: bag, width: 96, dropout: 0.3}}
training: {batch_size: 256, num_epochs: EPOCHS, optimizer: {learning_rate: 0.003}}
metric: {name: mean_recall, target: baseline}
""",
    "aligned": f"""\
data: {DATA}
model: {{kind: vision_language, image_from: runs/eyes, projector: {{grid: 2}},
        decoder: {{kind: gpt, architecture: base, context: 64}}}}
training: {{batch_size: 32, num_epochs: 10, freeze: {{image: always, decoder: always}},
           optimizer: {{learning_rate: 0.003}}}}
metric: {{name: perplexity, target: every_baseline}}
""",
    "tuned": f"""\
data: {DATA}
model: {{kind: vision_language, start: runs/aligned}}
training: {{batch_size: 32, num_epochs: 10, freeze: {{image: always}},
           optimizer: {{learning_rate: 0.001}}}}
metric: {{name: perplexity, target: every_baseline}}
""",
    "whole": f"""\
data: {DATA}
model: {{kind: vision_language, start: runs/tuned}}
training: {{batch_size: 32, num_epochs: 5, optimizer: {{learning_rate: 0.0005,
           learning_rate_factors: {{image: 0.2}}}}}}
metric: {{name: perplexity, target: every_baseline}}
""",
}
JUDGED = ("aligned", "tuned", "whole")


def write_rows(data: Path, most: int) -> None:
    """Pictures without skin tones, and texts for the decoder."""
    table = pl.read_csv(data / "captions.csv")
    plain = table.filter(pl.col("skin_tone_variant") == 0)
    if most:
        plain = plain.head(most)
    plain.select("image", "caption", pl.col("group").alias("kind")).write_csv("names.csv")
    texts = data.parent / "alpaca-en-demo" / "alpaca_en_demo.jsonl"
    said = "\n".join(pl.read_ndjson(texts)["output"].to_list())
    Path("texts.txt").write_text(said[:LETTERS], encoding="utf-8")


def train(name: str, data: Path, epochs: int) -> None:
    """Train one stage, if it is not there."""
    if (Path("runs") / name / "evaluation.json").is_file():
        return
    text = STAGES[name].replace("FOLDER", str(data)).replace("EPOCHS", str(epochs))
    Path(f"{name}.yaml").write_text(f"name: {name}\n{text}", encoding="utf-8")
    call("train", f"{name}.yaml", "--run", name)


def call(*words: str) -> None:
    """Run the command; a verdict that is not met is no error."""
    ran = subprocess.run([sys.executable, "-m", "trainwright", *words], check=False)
    if ran.returncode not in (0, 3):
        raise SystemExit(ran.returncode)


def shown(interval: dict[str, float]) -> str:
    """A value with its interval."""
    return f"{interval['value']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"


def main() -> None:
    """Train all stages and print a table of what they know."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--data", type=Path, required=True)
    asked.add_argument("--rows", type=int, default=0, help="the first so many pictures; 0: all")
    asked.add_argument("--epochs", type=int, default=20, help="of the dual encoder")
    given = asked.parse_args()
    data = given.data.resolve()
    if not Path("names.csv").is_file():
        write_rows(data, given.rows)
    train("words", data, given.epochs)
    if not Path("base").is_dir():
        call("weights", "export", "words", "--to", "huggingface", "-o", "base")
    for name in ("eyes", *JUDGED):
        train(name, data, given.epochs)
    print("| stage | perplexity | other images | difference | linear | exact match | token F1 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in JUDGED:
        found = json.loads((Path("runs") / name / "evaluation.json").read_text(encoding="utf-8"))
        judged, (written,) = found["evaluation"], found["questions"]
        other = judged["baselines"]["other_images"]["perplexity"]["value"]
        linear = judged["baselines"]["linear"]["perplexity"]["value"]
        cells = (
            f"`{name}`",
            shown(judged["metrics"]["perplexity"]),
            f"{other:.3f}",
            shown(judged["gains"]["other_images"]["perplexity"]),
            f"{linear:.3f}",
            shown(written["metrics"]["exact_match"]),
            shown(written["metrics"]["token_f1"]),
        )
        print(f"| {' | '.join(cells)} |")
    for name in JUDGED:
        found = json.loads((Path("runs") / name / "evaluation.json").read_text(encoding="utf-8"))
        gain = found["questions"][0]["gains"]["other_images"]["token_f1"]
        print(f"token F1 of {name} minus that with other images: {shown(gain)}")


if __name__ == "__main__":
    main()
