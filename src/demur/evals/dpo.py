"""Train a model with several betas and measure both rates at every point of the sweep.

The trainer is passed in, so a sweep needs no library of its own. Its folder keeps each measured
point, and a resumed sweep does not train it again.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol

import msgspec

from demur.errors import DemurError, InputError, error_reason
from demur.evals.beta import SweepNote, SweepPoint, add_counts, point_name, rule_notes
from demur.evals.leaks import NearTextIndex, normalize_text
from demur.evals.line_files import write_json
from demur.evals.local_targets import PythonOptions, PythonTarget
from demur.evals.pairs import PreferencePair, SkippedRow, encode_pair
from demur.evals.rates import make_rates
from demur.evals.report import make_report
from demur.evals.run import run_suite
from demur.evals.run_folder import EvalRun
from demur.evals.suite import EvalSuite
from demur.gate.clock import Clock, format_timestamp, system_clock

_PIECE_LENGTH, _MIN_LENGTH, _MIN_DISTINCT_SHARE = 8, 40, 0.5
# Code and tables have many symbols, but a larger share of letters than this.
_MIN_VISIBLE = 10
_MIN_WORD_SHARE = 0.4


def is_degenerate(text: str) -> bool:
    """Return whether an answer mostly repeats itself or holds hardly any words.

    Training too hard on pairs makes models lose their words first. Such a model refuses nothing,
    so counting refusals alone would take that for helpfulness. Short answers are never degenerate.
    """
    visible = "".join(text.split())
    if len(visible) >= _MIN_VISIBLE and sum(map(str.isalnum, visible)) < _MIN_WORD_SHARE * len(
        visible
    ):
        return True
    plain = normalize_text(text)
    if len(plain) < _MIN_LENGTH:
        return False
    pieces = [plain[at : at + _PIECE_LENGTH] for at in range(len(plain) - _PIECE_LENGTH + 1)]
    return len(set(pieces)) < _MIN_DISTINCT_SHARE * len(pieces)


SWEEP_FILE = "sweep.json"
POINT_FILE = "point.json"
_ANSWER_TIMEOUT_S = 3600.0


class SweepError(DemurError, ValueError):
    """A sweep that cannot be started or resumed."""


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How models are trained and measured.

    `max_steps` ends training early. `prompt_format` renders the prompt of a plain-text pair.
    `limit` is the maximum number of rows asked of each suite.
    """

    betas: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = (0.05, 0.1, 0.3, 0.5)
    epochs: Annotated[float, msgspec.Meta(gt=0)] = 3.0
    max_steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    learning_rate: Annotated[float, msgspec.Meta(gt=0)] = 1e-6
    batch_size: Annotated[int, msgspec.Meta(ge=1)] = 4
    max_length: Annotated[int, msgspec.Meta(ge=8)] = 1024
    max_new_tokens: Annotated[int, msgspec.Meta(ge=1)] = 128
    prompt_format: str = "{prompt}\n\n"
    seed: int = 0
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    keep_models: bool = False


class TunedModel(NamedTuple):
    """A model that answers prompts, and the results of its training."""

    answer: Callable[[str], str]
    steps: int = 0
    loss: float | None = None
    reward_accuracy: float | None = None


class ModelTuner(Protocol):
    """Trains models on preference pairs."""

    @property
    def name(self) -> str:
        """The name of the base model."""

    def load_base(self) -> TunedModel:
        """Return the base model, untrained."""

    def train_model(self, pairs: Sequence[PreferencePair], beta: float, folder: Path) -> TunedModel:
        """Return the model trained on pairs with a beta; `folder` may keep its files."""


class _SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that identifies a sweep: a folder resumes only the same plan."""

    model: str
    pairs: int
    pairs_digest: str
    suites: dict[str, str]
    options: SweepOptions


class BetaSweep(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a sweep, its points, and notes that compare them with the rule of thumb."""

    schema_version: Literal["eval_dpo.v1"] = "eval_dpo.v1"
    plan: _SweepPlan
    started_at: str
    points: tuple[SweepPoint, ...] = ()
    notes: tuple[SweepNote, ...] = ()


def drop_leaked_pairs(
    pairs: Iterable[PreferencePair], suites: Iterable[EvalSuite]
) -> tuple[list[PreferencePair], list[SkippedRow]]:
    """Return the pairs whose prompts are not near any row of the suites, and the others."""
    near = NearTextIndex((row.id, row.prompt) for suite in suites for row in suite.rows)
    kept: list[PreferencePair] = []
    left_out: list[SkippedRow] = []
    for number, pair in enumerate(pairs, 1):
        leak = near.find_near(pair.prompt)
        if leak is None:
            kept.append(pair)
        else:
            name = pair.meta.row_id if pair.meta else f"pair {number}"
            left_out.append(SkippedRow(name, "leak", f"{leak}, which is tested on"))
    return kept, left_out


async def run_sweep(
    tuner: ModelTuner,
    pairs: Sequence[PreferencePair],
    suites: Sequence[EvalSuite],
    folder: Path | str,
    options: SweepOptions,
    *,
    clock: Clock = system_clock,
    on_point: Callable[[SweepPoint], None] | None = None,
) -> BetaSweep:
    """Return the points of the base and of each beta, measured on the suites.

    A folder that holds this sweep already is resumed. `on_point` is called with each point.

    Raises:
        SweepError: The folder holds another sweep, or cannot be used.
        InputError: There are no pairs, betas or suites, or some are given twice.
    """
    if not pairs:
        raise InputError("there are no pairs to train on")
    if not options.betas or len(set(options.betas)) < len(options.betas):
        raise InputError("a sweep needs at least one beta, and no beta twice")
    if len({suite.name for suite in suites}) < max(1, len(suites)):
        raise InputError("a sweep needs at least one suite, and no suite name twice")
    place = Path(folder)
    sweep = _open_sweep(place, _make_plan(tuner, pairs, suites, options), format_timestamp(clock()))
    measuring = _SweepMeter(suites, options, clock)
    points: list[SweepPoint] = []
    for beta in (None, *options.betas):
        kept = place / point_name(beta)
        point = _read_point(kept)
        if point is None:
            shutil.rmtree(kept, ignore_errors=True)
            began = time.monotonic()
            tuned = tuner.load_base() if beta is None else tuner.train_model(pairs, beta, kept)
            train_s = time.monotonic() - began if beta is not None else 0.0
            point = await measuring.measure_point(beta, tuned, kept, train_s)
            write_json(kept / POINT_FILE, point, "the point", SweepError)
        points.append(point)
        if on_point is not None:
            on_point(point)
    done = msgspec.structs.replace(sweep, points=tuple(points), notes=rule_notes(points))
    write_json(place / SWEEP_FILE, done, "the sweep", SweepError)
    return done


def _make_plan(
    tuner: ModelTuner,
    pairs: Iterable[PreferencePair],
    suites: Iterable[EvalSuite],
    options: SweepOptions,
) -> _SweepPlan:
    total, count = hashlib.sha256(), 0
    for count, pair in enumerate(pairs, 1):  # noqa: B007 - how many there were is read below
        total.update(encode_pair(msgspec.structs.replace(pair, meta=None)) + b"\n")
    return _SweepPlan(
        model=tuner.name,
        pairs=count,
        pairs_digest=f"sha256:{total.hexdigest()}",
        suites={suite.name: suite.digest for suite in suites},
        options=options,
    )


def _open_sweep(folder: Path, plan: _SweepPlan, now: str) -> BetaSweep:
    """Return the sweep that a folder holds, or a new one in it."""
    path, where = folder / SWEEP_FILE, str(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            known = msgspec.json.decode(path.read_bytes(), type=BetaSweep)
            if known.plan != plan:
                help_text = "resume it with the same options, or give this sweep another folder"
                raise SweepError("the folder holds another sweep", where=where, help=help_text)
            return known
        if any(folder.iterdir()):
            problem = "the folder is not empty and holds no sweep"
            raise SweepError(problem, where=where, help="give a new folder")
    except (OSError, msgspec.MsgspecError) as error:
        raise SweepError(f"cannot use the folder: {error_reason(error)}", where=where) from error
    sweep = BetaSweep(plan=plan, started_at=now)
    write_json(path, sweep, "the sweep", SweepError)
    return sweep


def _read_point(folder: Path) -> SweepPoint | None:
    try:
        return msgspec.json.decode((folder / POINT_FILE).read_bytes(), type=SweepPoint)
    except (OSError, msgspec.MsgspecError):
        return None


class _SweepMeter(NamedTuple):
    """Measures points on the suites of a sweep."""

    suites: Sequence[EvalSuite]
    options: SweepOptions
    clock: Clock

    async def measure_point(
        self, beta: float | None, tuned: TunedModel, folder: Path, train_s: float
    ) -> SweepPoint:
        """Return the measured point of a model."""
        began = time.monotonic()
        name = point_name(beta)
        runs = [await self._run(tuned, suite, folder / suite.name, name) for suite in self.suites]
        reports = [make_report(run) for run in runs]
        harmful = add_counts(report.harmful for report in reports)
        legitimate = add_counts(report.legitimate for report in reports)
        return SweepPoint(
            beta=beta,
            harmful=harmful,
            legitimate=legitimate,
            rates=make_rates(harmful, legitimate),
            degenerate=sum(is_degenerate(one.text) for run in runs for one in run.iter_answers()),
            steps=tuned.steps,
            loss=tuned.loss,
            reward_accuracy=tuned.reward_accuracy,
            train_s=round(train_s, 3),
            eval_s=round(time.monotonic() - began, 3),
        )

    async def _run(self, tuned: TunedModel, suite: EvalSuite, folder: Path, name: str) -> EvalRun:
        # One prompt at a time: a model uses the whole machine.
        settings = PythonOptions(timeout_s=_ANSWER_TIMEOUT_S, threads=1)
        target = PythonTarget(tuned.answer, settings, name=name)
        try:
            limit, clock = self.options.limit, self.clock
            return await run_suite(suite, target, folder, concurrency=1, limit=limit, clock=clock)
        finally:
            await target.close()
