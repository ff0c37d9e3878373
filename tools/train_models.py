"""Train the learned models of `models/`.

    python tools/train_models.py ROWS OUT [--seed N] [--only NAME] [--teacher FILE]
    python tools/train_models.py ROWS OUT --only answers --without SOURCE

ROWS is the folder that `tools/train_rows.py` wrote. OUT gets `requests.npz`, `documents.npz`,
`answers.npz` and `vectors.json`; `tools/calibrate_models.py` measures them and puts them in
place. The model of answers that ships learns from all sources; what it does on new ones is
measured with models that were trained without one (`--without`). It needs torch, and takes about
half an hour on two cores; seeds are fixed.
"""

import argparse
import hashlib
import json
import random  # noqa: TID251 - training draws its texts by a fixed seed
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models" / "src"))

from demur_models.network import (
    MAX_TOKENS,
    SEPARATOR,
    hash_tokens,
    split_pair,
    split_tokens,
)

Row = dict[str, Any]
# A text, and the chance of each head.
Vector = tuple[str, list[float]]
ROWS = Path(__file__).resolve().parent.parent / "models" / "rows"
FAMILIES = tuple(json.loads((ROWS / "families.json").read_text(encoding="utf-8")))
HEADS = ("harm", "injection", "planted", *(f"harm_{name}" for name in FAMILIES))
HEAD_WEIGHTS = (1.0, 1.0, 1.5, *(0.15 for _ in FAMILIES))
# This head only helps to train the others: documents have a model of their own.
AUXILIARY = HEADS.index("planted")
WORDS, PREFIXES, WIDTH, CHANNELS, HIDDEN = 65_536, 16_384, 40, 96, 64
MAX_TRAINED = 192
EPOCHS = {"answers": 4, "documents": 10, "requests": 7}
BATCH = 512
# How much more a harmless text counts that scores as harmful, or a full answer as a refusal.
SURPRISES = {"answers": 3.0, "requests": 8.0}
# How often rows of our own are shown in an epoch.
OWN_REPEATS = 3
# How much a teacher's chances count against the labels, and how much they are softened.
TAUGHT_SHARE, TAUGHT_SOFTNESS = 0.7, 1.2
_FRAMES = (
    "Please {}",
    "{} Thanks!",
    "Hi, {}",
    "I was wondering: {}",
    "{} Answer briefly.",
    "For my class: {}",
    "Can you help? {}",
    "{}\n\nKeep it short.",
    "hey {}",
    "{} pls",
)
# What is joined to a harmless text, and how often.
_JOINED = {"attack": 30, "planted": 10, "document": 20, "two": 25, "harm": 15}
_JOINS = ("\n\n", "\n", " ", "\n---\n", "\n\n###\n\n", ". ", "\n\nText: ", '\n"""\n')


def _draw_by(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - not for cryptography


class Example(NamedTuple):
    """A text with the label of each head (-1 if unknown) and a weight.

    `taught` are the chances that a teacher gives the first heads, if there are.
    """

    text: str
    labels: tuple[float, ...]
    weight: float
    taught: tuple[float, ...] = ()


class Student(nn.Module):
    """The network of `demur_models.network`, for training."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS + 1, WIDTH, padding_idx=WORDS)
        self.prefixes = nn.Embedding(PREFIXES + 1, WIDTH, padding_idx=PREFIXES)
        for table in (self.words, self.prefixes):
            nn.init.normal_(table.weight, std=0.1)
            with torch.no_grad():
                table.weight[-1] = 0
        self.near = nn.Conv1d(WIDTH, CHANNELS, 3, padding=1)
        self.far = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=2, dilation=2)
        self.attention = nn.Linear(CHANNELS, 1, bias=False)
        self.hidden = nn.Linear(2 * CHANNELS, HIDDEN)
        self.output = nn.Linear(HIDDEN, heads)
        self.dropout = nn.Dropout(0.25)

    def forward(self, words: Tensor, prefixes: Tensor) -> Tensor:
        """Return one logit for each head."""
        is_token = words != WORDS
        own, stems = self.words(words), self.prefixes(prefixes)
        if self.training:
            # Some words are read by their stem alone, as unknown words are.
            own = own * (torch.rand(words.shape, device=own.device) > 0.15).unsqueeze(-1)
            kept = (torch.rand(words.shape, device=own.device) > 0.08).unsqueeze(-1)
            embedded = (own + stems) * kept
        else:
            embedded = own + stems
        # Beyond a text's end there is nothing, as at its end.
        kept = is_token.unsqueeze(1)
        features = functional.relu(self.near(embedded.transpose(1, 2))) * kept
        features = (features + functional.relu(self.far(features)) * kept).transpose(1, 2)
        weights = self.attention(features).squeeze(-1).masked_fill(~is_token, -1e4).softmax(-1)
        mean = (weights.unsqueeze(-1) * features).sum(1)
        largest = features.masked_fill(~is_token.unsqueeze(-1), 0).amax(1)
        hidden = functional.relu(self.hidden(self.dropout(torch.cat((mean, largest), -1))))
        return self.output(self.dropout(hidden))


def hash_texts(texts: Sequence[str], limit: int = MAX_TRAINED) -> np.ndarray:
    """Return the table rows of each text's tokens, padded: texts, then words and prefixes."""
    tokens = [tokenize_text(text, limit) or [SEPARATOR] for text in texts]
    rows = np.empty((len(texts), 2, max(map(len, tokens))), dtype=np.int64)
    rows[:, 0], rows[:, 1] = WORDS, PREFIXES
    for row, own in zip(rows, tokens, strict=True):
        row[:, : len(own)] = hash_tokens(own, WORDS, PREFIXES)
    return rows


def tokenize_text(text: str, limit: int) -> list[str]:
    """Return the tokens of a text, or of a prompt and its answer."""
    prompt, mark, answer = text.partition(SEPARATOR)
    return split_pair(prompt, answer, limit) if mark else split_tokens(text, limit)


def vary_text(text: str, source: random.Random) -> str:
    """Return a text with words dropped, framed, or in another case; often unchanged."""
    chosen = source.random()
    words = text.split(" ")
    if chosen < 0.45 or SEPARATOR in text:
        return text
    if chosen < 0.6 and len(words) > 6:
        return " ".join(word for word in words if source.random() > 0.1)
    if chosen < 0.75:
        return source.choice(_FRAMES).format(text)
    if chosen < 0.85:
        return text.lower().rstrip("?.!")
    return text + "\n" if chosen < 0.9 else text


def _cut_text(text: str, length: int, source: random.Random) -> str:
    start = source.randrange(max(1, len(text) - length))
    return text[start : start + length]


def join_requests(rows: Sequence[Row], source: random.Random, count: int) -> Iterator[Example]:
    """Yield texts made of two rows: what a request carries stays in it, whatever is beside it."""
    benign = [row["text"] for row in rows if row["kind"] in {"everyday", "hard_benign"}]
    attacks = [row["text"] for row in rows if row["injection"] == 1]
    harmful = [row["text"] for row in rows if row["harm"] == 1 and row["injection"] == 0]
    documents = [row["text"] for row in rows if row["planted"] == 0]
    unknown = (-1.0,) * len(FAMILIES)
    none = (0.0,) * len(FAMILIES)
    for _ in range(count):
        join, plain = source.choice(_JOINS), _cut_text(source.choice(benign), 400, source)
        [kind] = source.choices(list(_JOINED), list(_JOINED.values()))
        match kind:
            case "attack":
                parts = [plain, _cut_text(source.choice(attacks), 500, source)]
                source.shuffle(parts)
                yield Example(join.join(parts), (-1, 1, -1, *unknown), 0.3)
            case "planted":
                text = _cut_text(source.choice(documents), 500, source)
                place = source.randrange(len(text) + 1)
                attack = _cut_text(source.choice(attacks), 300, source)
                joined = join.join((text[:place], attack, text[place:]))
                yield Example(joined, (-1, 1, -1, *unknown), 0.3)
            case "document":
                text = _cut_text(source.choice(documents), 500, source)
                yield Example(join.join((plain, text)), (0, 0, -1, *none), 0.7)
            case "two":
                other = _cut_text(source.choice(benign), 400, source)
                yield Example(join.join((plain, other)), (0, 0, -1, *none), 0.7)
            case _:
                parts = [plain[:150], source.choice(harmful)]
                source.shuffle(parts)
                yield Example(join.join(parts), (1, 0, -1, *unknown), 0.5)


def join_documents(rows: Sequence[Row], source: random.Random, count: int) -> Iterator[Example]:
    """Yield parts of clean documents, and documents of two; an order stays one beside more text."""
    texts = {label: [row["text"] for row in rows if row["planted"] == label] for label in (0, 1)}
    for _ in range(count):
        label = source.randrange(2)
        parts = [source.choice(texts[label]), _cut_text(source.choice(texts[0]), 400, source)]
        if label == 0:
            parts[0] = _cut_text(parts[0], 600, source)
        source.shuffle(parts)
        yield Example(source.choice(_JOINS).join(parts), (float(label),), 0.7)


def weigh_requests(rows: Sequence[Row], repeats: int = OWN_REPEATS) -> list[Example]:
    """Return the labelled rows with weights: classes balanced in each language, hard ones twice."""
    counts = Counter((row["language"], row["harm"]) for row in rows)
    examples = []
    for row in rows:
        weight = 2.0 if row["kind"] == "hard_benign" else 1.0
        own, other = (counts[row["language"], label] for label in (row["harm"], 1 - row["harm"]))
        if row["harm"] >= 0:
            # A language with one class only would teach that the language is harmful.
            weight *= 0.1 if other == 0 else min(3.0, max(0.33, (other / own) ** 0.5))
        families = tuple(
            float(row["harm"])
            if row["harm"] <= 0
            else float(row["family"] == name)
            if row["family"]
            else -1.0
            for name in FAMILIES
        )
        labels = (row["harm"], row["injection"], row["planted"], *families)
        is_own = row["source"] in {"contrast_train", "own"}
        examples += [Example(row["text"], labels, weight)] * (repeats if is_own else 1)
    return examples


def join_pair(row: Row) -> str:
    """Return a prompt and its answer as one text."""
    prompt = row["prompt"].replace(SEPARATOR, " ")
    return f"{prompt}{SEPARATOR}{row['answer'].replace(SEPARATOR, ' ')}"


def weigh_answers(rows: Sequence[Row]) -> list[Example]:
    """Return the labelled answers with weights: sources and classes balanced."""
    counts = Counter((row["source"], row["label"]) for row in rows)
    return [
        Example(
            join_pair(row),
            (float(row["label"] == 2), float(row["label"] >= 1)),
            min(3.0, (1000 / counts[row["source"], row["label"]]) ** 0.4),
        )
        for row in rows
    ]


def vary_answers(examples: Sequence[Example], source: random.Random) -> Iterator[Example]:
    """Yield answers without their prompt or with that of another answer, some words dropped."""
    for example in examples:
        prompt, _, answer = example.text.partition(SEPARATOR)
        chosen = source.random()
        if chosen < 0.25:
            prompt = ""
        elif chosen < 0.4:
            prompt = source.choice(examples).text.partition(SEPARATOR)[0]
        if source.random() < 0.5:
            answer = " ".join(word for word in answer.split(" ") if source.random() > 0.12)
        yield example._replace(text=f"{prompt}{SEPARATOR}{answer}")


class Trainer:
    """Trains a network on examples; `surprise` makes harmless texts that score high count more."""

    def __init__(self, weights: Sequence[float], surprise: float = 0.0) -> None:
        self.weights = torch.tensor(weights)
        self.surprise = surprise

    def fit(
        self, draw: Callable[[random.Random], list[Example]], epochs: int, seed: int
    ) -> Student:
        """Return a network that was trained on what `draw` returns in each epoch."""
        torch.manual_seed(seed)
        student = Student(len(self.weights))
        optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=0.01)
        steps = epochs * (len(draw(_draw_by(seed))) // BATCH + 1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 2e-3, total_steps=steps, pct_start=0.1
        )
        used = [torch.zeros(rows + 1, dtype=torch.bool) for rows in (WORDS, PREFIXES)]
        for epoch in range(epochs):
            source = _draw_by(seed * 1000 + epoch)
            total = 0.0
            student.train()
            for examples in batch_examples(draw(source), source):
                rows = torch.from_numpy(hash_texts([one.text for one in examples])).long()
                for mask, hashed in zip(used, rows.unbind(1), strict=True):
                    mask[hashed.reshape(-1)] = True
                loss = self._find_loss(student(*rows.unbind(1)), examples)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(student.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                total += loss.item()
            print(f"epoch {epoch + 1} of {epochs}: loss {total * epochs / steps:.4f}", flush=True)
        with torch.no_grad():
            # A word that was never seen says nothing.
            for table, mask in zip((student.words, student.prefixes), used, strict=True):
                table.weight[~mask] = 0
        return student.eval()

    def _find_loss(self, logits: Tensor, examples: Sequence[Example]) -> Tensor:
        labels = torch.tensor([one.labels for one in examples], dtype=torch.float32)
        for label, one in zip(labels, examples, strict=True):
            for head, chance in enumerate(one.taught):
                known = float(label[head])
                label[head] = chance if known < 0 else known + TAUGHT_SHARE * (chance - known)
        weights = torch.tensor([one.weight for one in examples]).unsqueeze(1)
        # A threshold is set by the few harmless texts that score highest, so they count more.
        surprise = (logits.detach().sigmoid() - labels.clamp_min(0)).clamp_min(0)
        weights = weights * self.weights * (1 + self.surprise * surprise)
        return batch_loss(logits, labels, weights)


def batch_loss(logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the mean loss of a batch over the labels that are known."""
    loss = functional.binary_cross_entropy_with_logits(
        logits, labels.clamp_min(0), reduction="none"
    )
    return (loss * (labels >= 0) * weights).sum() / len(labels)


def batch_examples(examples: list[Example], source: random.Random) -> Iterator[list[Example]]:
    """Yield batches in random order; a batch holds texts of about one length."""
    source.shuffle(examples)
    batches = []
    for start in range(0, len(examples), 32 * BATCH):
        part = sorted(examples[start : start + 32 * BATCH], key=lambda one: len(one.text))
        batches += [part[at : at + BATCH] for at in range(0, len(part), BATCH)]
    source.shuffle(batches)
    return iter(batches)


def pack_student(student: Student) -> dict[str, np.ndarray]:
    """Return the arrays of a model file: tables as 8-bit numbers, layers as 16-bit floats."""
    arrays: dict[str, np.ndarray] = {}
    for name in ("words", "prefixes"):
        table = getattr(student, name).weight[:-1].detach().cpu().numpy()
        scales = np.maximum(np.abs(table).max(axis=1), 1e-8) / 127
        scales = scales.astype(np.float16).astype(np.float32) + 1e-8
        arrays[name] = np.clip(np.rint(table / scales[:, None]), -127, 127).astype(np.int8)
        arrays[f"{name}_scales"] = scales.astype(np.float16)
    layers = {
        "near": _flatten_kernel(student.near),
        "near_bias": student.near.bias,
        "far": _flatten_kernel(student.far),
        "far_bias": student.far.bias,
        "attention": student.attention.weight[0],
        "hidden": student.hidden.weight.T,
        "hidden_bias": student.hidden.bias,
        "output": student.output.weight.T,
        "output_bias": student.output.bias,
    }
    for name, values in layers.items():
        assert values is not None
        arrays[name] = values.detach().cpu().numpy().astype(np.float16)
    return arrays


def _flatten_kernel(layer: nn.Conv1d) -> Tensor:
    return layer.weight.detach().permute(2, 1, 0).reshape(-1, CHANNELS)


def read_rows(path: Path, part: str = "train") -> list[Row]:
    """Return the rows of one part of a file, by default those that models are trained on."""
    with path.open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [row for row in rows if row["part"] == part]


def train_requests(options: argparse.Namespace) -> list[Vector]:
    """Train and write the model of requests; return its vectors."""
    rows = read_rows(options.rows / "requests.jsonl")
    examples = weigh_requests(rows)
    if options.teacher is not None:
        examples = add_teaching(examples, options)

    def draw(source: random.Random) -> list[Example]:
        varied = [one._replace(text=vary_text(one.text, source)) for one in examples]
        return [*varied, *join_requests(rows, source, 40_000)]

    student = Trainer(HEAD_WEIGHTS, SURPRISES["requests"]).fit(
        draw, EPOCHS["requests"], options.seed
    )
    _drop_head(student, AUXILIARY)
    return _write_student("requests", student, options.out)


def add_teaching(examples: Sequence[Example], options: argparse.Namespace) -> list[Example]:
    """Return the examples with a teacher's chances, and those that only the teacher labels."""
    with np.load(options.teacher, allow_pickle=False) as file:
        chances = 1 / (1 + np.exp(-file["logits"] / TAUGHT_SOFTNESS))
        taught = dict(zip(file["digests"].tolist(), map(tuple, chances.tolist()), strict=True))
    unknown = (-1.0,) * len(HEADS)
    unlabelled = [
        Example(row["text"], unknown, 0.7)
        for row in read_rows(options.rows / "requests.jsonl", "unlabelled")
    ]
    found = [
        one._replace(taught=taught.get(hash_text(one.text), ())) for one in (*examples, *unlabelled)
    ]
    return [one for one in found if one.taught or one.labels != unknown]


def hash_text(text: str) -> str:
    """Return the key of a text in the teacher's file."""
    return hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def _drop_head(student: Student, dropped: int) -> None:
    kept = [index for index in range(student.output.out_features) if index != dropped]
    with torch.no_grad():
        student.output.weight = nn.Parameter(student.output.weight[kept])
        student.output.bias = nn.Parameter(student.output.bias[kept])


def train_documents(options: argparse.Namespace) -> list[Vector]:
    """Train and write the model of documents; return its vectors."""
    rows = [row for row in read_rows(options.rows / "requests.jsonl") if row["planted"] >= 0]
    own = [row for row in rows if row["source"] == "own"]
    answers = read_rows(options.rows / "answers.jsonl")
    # Answers are prose that orders nobody around.
    prose = [row["answer"][:1500] for row in answers if row["label"] == 0]

    def draw(source: random.Random) -> list[Example]:
        texts = [*rows, *own, *own]
        found = [Example(row["text"], (row["planted"],), 1.0) for row in texts]
        found += [Example(text, (0.0,), 0.5) for text in source.sample(prose, 3000)]
        return [*found, *join_documents(rows, source, 6000)]

    student = Trainer((1.0,)).fit(draw, EPOCHS["documents"], options.seed)
    return _write_student("documents", student, options.out)


def train_answers(options: argparse.Namespace) -> list[Vector]:
    """Train and write the model of answers; return its vectors."""
    rows = read_rows(options.rows / "answers.jsonl")
    examples = weigh_answers([row for row in rows if row["source"] != options.without])

    def draw(source: random.Random) -> list[Example]:
        return list(vary_answers(examples, source))

    student = Trainer((1.0, 0.4), SURPRISES["answers"]).fit(draw, EPOCHS["answers"], options.seed)
    return _write_student("answers", student, options.out)


def _write_student(name: str, student: Student, out: Path) -> list[Vector]:
    """Write a model file; return sentences of our own with the trained network's chances."""
    arrays = pack_student(student)
    np.savez_compressed(out / f"{name}.npz", **arrays)  # type: ignore[arg-type] # wants a bool
    texts = [text for text in read_samples() if (SEPARATOR in text) == (name == "answers")]
    with torch.no_grad():
        rows = torch.from_numpy(hash_texts(texts, MAX_TOKENS))
        found = student(*rows.unbind(1)).numpy()
    return [
        (text, [round(float(1 / (1 + np.exp(-one))), 5) for one in logits])
        for text, logits in zip(texts, found, strict=True)
    ]


def read_samples() -> list[str]:
    """Return the sentences whose scores are stored."""
    samples: list[str] = json.loads((ROWS / "samples.json").read_text(encoding="utf-8"))
    return samples


def main() -> None:
    """Train the models."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("rows", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--only", choices=("answers", "documents", "requests"))
    parser.add_argument("--without", help="a source that the model of answers is not to see")
    parser.add_argument("--teacher", type=Path, help="what tools/train_teacher.py wrote")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    steps = {
        "answers": train_answers,
        "documents": train_documents,
        "requests": train_requests,
    }
    path = options.out / "vectors.json"
    vectors = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, train in steps.items():
        if options.only in {None, name}:
            vectors[name] = train(options)
            text = json.dumps(vectors, ensure_ascii=False, indent=1) + "\n"
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
