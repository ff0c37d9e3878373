"""Direct preference optimisation by TRL on a model in a folder; nothing is downloaded.

Needs the extra `demur[train]`: import this module by name, after checking that it is installed.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from demur.errors import InputError
from demur.evals.dpo import SweepOptions, TunedModel
from demur.evals.pairs import PreferencePair

# Imported by name, because they are optional; without them this module cannot be imported.
datasets: Any = import_module("datasets")
torch: Any = import_module("torch")
transformers: Any = import_module("transformers")
trl: Any = import_module("trl")


class TrlTuner:
    """Trains the model in a folder on pairs, each time from the base model.

    `chat` says that pairs are messages, which the model's own chat template renders.
    """

    def __init__(self, model: Path | str, options: SweepOptions, *, chat: bool = False) -> None:
        self._path = Path(model)
        if not (self._path / "config.json").exists():
            problem = "the folder holds no model"
            raise InputError(problem, where=str(model), help="name a folder with a `config.json`")
        self._options, self._chat = options, chat
        load = transformers.AutoTokenizer.from_pretrained
        self._tokenizer = load(str(self._path), local_files_only=True)
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        if chat and not self._tokenizer.chat_template:
            problem = "the model has no chat template"
            raise InputError(problem, where=str(model), help="write the pairs without `--chat`")

    @property
    def name(self) -> str:
        """The folder of the model."""
        return str(self._path)

    def load_base(self) -> TunedModel:
        """Return the base model, untrained."""
        model = self._load_model()
        return TunedModel(_ModelAnswers(model, self._tokenizer, self._options, chat=self._chat))

    def train_model(self, pairs: Sequence[PreferencePair], beta: float, folder: Path) -> TunedModel:
        """Return the model trained on pairs with a beta."""
        transformers.set_seed(self._options.seed)
        trainer = trl.DPOTrainer(
            model=self._load_model(),
            args=self._training_config(beta, folder),
            train_dataset=datasets.Dataset.from_list(list(map(self._training_example, pairs))),
            processing_class=self._tokenizer,
        )
        # The callback prints every step; a sweep shows only its points.
        trainer.remove_callback(transformers.PrinterCallback)
        ended = trainer.train()
        if self._options.keep_models:
            trainer.save_model(str(folder / "model"))
            self._tokenizer.save_pretrained(str(folder / "model"))
        accuracies = [one for one in trainer.state.log_history if "rewards/accuracies" in one]
        return TunedModel(
            _ModelAnswers(trainer.model, self._tokenizer, self._options, chat=self._chat),
            steps=int(ended.global_step),
            loss=float(ended.training_loss),
            reward_accuracy=float(accuracies[-1]["rewards/accuracies"]) if accuracies else None,
        )

    def _load_model(self) -> Any:
        load = transformers.AutoModelForCausalLM.from_pretrained
        return load(str(self._path), local_files_only=True)

    def _training_config(self, beta: float, folder: Path) -> Any:
        options = self._options
        return trl.DPOConfig(
            output_dir=str(folder / "training"),
            beta=beta,
            num_train_epochs=options.epochs,
            max_steps=options.max_steps or -1,
            learning_rate=options.learning_rate,
            per_device_train_batch_size=options.batch_size,
            max_length=options.max_length,
            seed=options.seed,
            data_seed=options.seed,
            bf16=bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported()),
            use_cpu=not torch.cuda.is_available(),
            gradient_checkpointing=False,
            dataloader_pin_memory=bool(torch.cuda.is_available()),
            save_strategy="no",
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
        )

    def _training_example(self, pair: PreferencePair) -> dict[str, Any]:
        if self._chat:
            return {
                "prompt": [{"role": "user", "content": pair.prompt}],
                "chosen": [{"role": "assistant", "content": pair.chosen}],
                "rejected": [{"role": "assistant", "content": pair.rejected}],
            }
        return {
            "prompt": self._options.prompt_format.replace("{prompt}", pair.prompt),
            "chosen": pair.chosen,
            "rejected": pair.rejected,
        }


class _ModelAnswers:
    """A model that answers prompts by greedy decoding."""

    def __init__(self, model: Any, words: Any, options: SweepOptions, *, chat: bool) -> None:
        self._model = model.eval()
        self._tokenizer, self._options, self._chat = words, options, chat

    def __call__(self, prompt: str) -> str:
        """Return the answer to a prompt."""
        encoded = self._encode_prompt(prompt).to(self._model.device)
        room = max(1, self._options.max_length - self._options.max_new_tokens)
        ids = encoded["input_ids"][:, -room:]
        with torch.no_grad():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=self._options.max_new_tokens,
                do_sample=False,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        text: str = self._tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True)
        return text.strip()

    def _encode_prompt(self, prompt: str) -> Any:
        if self._chat:
            return self._tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
            )
        text = self._options.prompt_format.replace("{prompt}", prompt)
        return self._tokenizer(text, return_tensors="pt")
