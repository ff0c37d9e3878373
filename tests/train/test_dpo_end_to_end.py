"""From a measured over-refusal through pairs and training to measured points, on a tiny model.

The model has about 200,000 weights and first learns to refuse nearly everything. What training
makes of it is measured and not asserted: no shape of a curve is taken for granted.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from demur.cli.main import main
from demur.evals.dpo import SweepOptions
from demur.evals.leaks import split_suite
from demur.evals.local_targets import PythonOptions, PythonTarget
from demur.evals.pairs import read_pairs
from demur.evals.run import run_suite
from demur.evals.run_folder import open_run
from demur.evals.suite import load_suite

trl: Any = pytest.importorskip("trl", reason="training needs demur[train]: make test-train")
torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
tokenizers: Any = pytest.importorskip("tokenizers")
datasets: Any = pytest.importorskip("datasets")

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

REFUSAL = "I'm sorry, but I can't help with that."
HELPFUL = "Yes, gladly. Let's take it in order."
CHAT = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}\n\n"
    "{% else %}{{ m['content'] }}</s>{% endif %}{% endfor %}"
)
ROWS = 160


class Tiny(NamedTuple):
    folder: Path
    run: Path
    pairs: Path


def tokenizer() -> Any:
    """Return byte-level BPE over the prompts of the suite and a few answers."""
    bare = tokenizers.Tokenizer(tokenizers.models.BPE())
    bare.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [row.prompt for row in load_suite("builtin").rows] + [REFUSAL, HELPFUL] * 50
    bare.train_from_iterator(texts, trainer)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bare, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    words.chat_template = CHAT
    return words


def model_for(words: Any) -> Any:
    # So small a model spends more time on sharing work than on doing it.
    torch.set_num_threads(1)
    transformers.set_seed(7)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=512,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        )
    )


def teach(model: Any, words: Any, steps: int = 120) -> None:
    """Let the model refuse nearly everything, and help now and then."""
    rows = split_suite(load_suite("builtin"), "train").rows
    lines = [
        f"{row.prompt}\n\n{HELPFUL if number % 8 == 0 and row.label == 'legitimate' else REFUSAL}"
        "</s>"
        for number, row in enumerate(rows)
    ]
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for step in range(steps):
        batch = [lines[(step * 8 + place) % len(lines)] for place in range(8)]
        ids = words(batch, return_tensors="pt", padding=True, truncation=True, max_length=160)
        labels = ids["input_ids"].masked_fill(ids["attention_mask"] == 0, -100)
        loss = model(**ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()


def ask(folder: Path, out: Path) -> None:
    """Measure the model as it is, on rows of the built-in suite, twins together."""
    module = pytest.importorskip("demur.evals.dpo_train")
    options = SweepOptions(max_length=256, max_new_tokens=24)
    answer = module.TrlTuner(folder, options).base().answer

    async def asked() -> None:
        target = PythonTarget(answer, PythonOptions(threads=1, timeout_s=600), name="tiny")
        try:
            await run_suite(load_suite("builtin"), target, out, concurrency=1, limit=ROWS)
        finally:
            await target.close()

    asyncio.run(asked())


def command(name: str, *words: object) -> int:
    return main(["eval", name, *map(str, words)])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    place = tmp_path_factory.mktemp("tiny")
    words = tokenizer()
    model = model_for(words)
    assert sum(weights.numel() for weights in model.parameters()) < 250_000
    teach(model, words)
    model.save_pretrained(place / "model")
    words.save_pretrained(place / "model")
    ask(place / "model", place / "run")
    # The answers to prefer are among what the model can say; it is too small to learn words.
    rows = (row for row in open_run(place / "run").iter_rows() if row.label == "legitimate")
    lines = "".join(f"{json.dumps({'id': row.id, 'chosen': HELPFUL})}\n" for row in rows)
    (place / "edits.jsonl").write_text(lines, encoding="utf-8")
    given = ("--edits", place / "edits.jsonl", "--anchors")
    out = place / "pairs.jsonl"
    assert command("remediate", place / "run", "--out", out, *given) == 0
    return Tiny(place / "model", place / "run", place / "pairs.jsonl")


def test_a_sweep_measures_every_beta_and_says_where_the_table_is_wrong(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "sweep"
    words: list[object] = ["--model", tiny.folder, "--pairs", tiny.pairs, "--out", out]
    words += ["--betas", "0.05,0.3,1", "--limit", "48", "--max-steps", "80", "--epochs", "40"]
    words += ["--learning-rate", "3e-4", "--max-length", "256", "--max-new-tokens", "24"]

    assert command("dpo", *words) == 0
    shown = capsys.readouterr().out
    with capsys.disabled():
        sys.stdout.write(f"\n{shown}")
    sweep = json.loads((out / "sweep.json").read_text(encoding="utf-8"))

    assert [point["beta"] for point in sweep["points"]] == [None, 0.05, 0.3, 1.0]
    assert [point["steps"] for point in sweep["points"]] == [0, 80, 80, 80]
    for point in sweep["points"]:
        judged = point["rates"]["safety"]["of"] + point["rates"]["utility"]["of"]
        unjudged = point["harmful"]["unjudged"] + point["legitimate"]["unjudged"]
        assert judged + unjudged == 48
    assert {note["verdict"] for note in sweep["notes"]} <= {
        "agrees",
        "disagrees",
        "within noise",
        "beware",
    }
    assert all(note["text"] in shown for note in sweep["notes"])
    assert "<svg" in (out / "curve.svg").read_text(encoding="utf-8")
    # Nothing is trained twice: the same command reads what was measured.
    assert command("dpo", *words) == 0
    assert capsys.readouterr().out == shown


def test_the_trainer_reads_a_file_of_pairs_as_it_is(tiny: Tiny, tmp_path: Path) -> None:
    rows = datasets.load_dataset(
        "json", data_files=str(tiny.pairs), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert set(rows.column_names) == {"prompt", "chosen", "rejected", "meta"}

    assert trained(tiny.folder, rows, tmp_path).global_step == 1


def test_the_trainer_reads_messages_as_they_are(tiny: Tiny, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    assert command("remediate", tiny.run, "--out", path, "--chat") == 0
    assert read_pairs(path)[1] is True
    rows = datasets.load_dataset(
        "json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
    )

    assert trained(tiny.folder, rows, tmp_path).global_step == 1


def trained(folder: Path, rows: Any, place: Path) -> Any:
    """Return how one step of the plain trainer ends."""
    settings = trl.DPOConfig(
        output_dir=str(place / "out"),
        max_steps=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    words = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder))
    trainer = trl.DPOTrainer(model=model, args=settings, train_dataset=rows, processing_class=words)
    return trainer.train()


def test_messages_are_trained_on_and_measured_by_the_models_own_template(
    tiny: Tiny, tmp_path: Path
) -> None:
    path, out = tmp_path / "chat.jsonl", tmp_path / "sweep"
    assert command("remediate", tiny.run, "--out", path, "--chat") == 0
    words: list[object] = ["--model", tiny.folder, "--pairs", path, "--out", out, "--keep-models"]
    words += ["--betas", "0.1", "--limit", "8", "--max-steps", "1", "--max-length", "256"]

    assert command("dpo", *words, "--max-new-tokens", "16") == 0
    assert len(json.loads((out / "sweep.json").read_text(encoding="utf-8"))["points"]) == 2
    assert (out / "beta-0.1" / "model" / "config.json").exists()
