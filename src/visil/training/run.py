"""A training run from its configuration: footage, whitening, mined triplets, the loop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.model.config import read_config
from visil.progress import video_progress
from visil.training.config import Augmentation, Part, TrainConfig
from visil.training.data import Split, Tell, read_footage, triplet_sampler
from visil.training.distributed import Processes, joined
from visil.training.embedding import SnippetEmbedder
from visil.training.footage import Footage
from visil.training.frame_run import learn_frames
from visil.training.interrupt import stop_on_interrupt
from visil.training.memory import RememberedFootage
from visil.training.parts import learning_parts
from visil.training.progress import step_progress
from visil.training.start import fit_on_footage, starting_model
from visil.training.trainer import Outcome, Trainer
from visil.training.transforms import Heavy, Mild, PaperPositive, PictureTransform
from visil.training.validation import Validation, edited_copies

START = "start"
"""Folder of the model that training began with, where its whitening was fitted by the run itself."""

VALIDATION_SEED = 1
"""Of the edits that every run is validated on."""


STRUNG = 20
"""Held-out videos from which every second can be spared as foreign footage, where clips are strung together."""


def train(config: TrainConfig, *, resume: bool = True, tell: Tell = print, quiet: bool = False) -> Outcome:
    """Train as ``config`` says, in this process or in all that torchrun started; ``tell`` gets lines for people."""
    with joined(config.device) as processes:
        if not processes.first:
            tell, quiet = _nothing, True
        out = Path(config.out)
        _make(out)
        start = starting_model(config)
        model = start.model.to(processes.device)
        data = _footage(config, model, processes, tell, quiet)
        if start.fit_whitening:
            _whiten(model, data.training, out, processes, resume)
        with stop_on_interrupt() as stop:
            before = None
            if config.frames.steps:
                if not config.optim.epochs:
                    before = _validation(config, model, data, ()).mean_average_precision()
                if not learn_frames(
                    config,
                    model,
                    data,
                    _cache(config),
                    processes,
                    tell=tell,
                    quiet=quiet,
                    resume=resume,
                    stop=stop,
                ):
                    return Outcome(0, 0, 0.0, 0.0, 0, stopped=True)
            if before is not None:
                return _frames_alone(config, model, data, processes, before)
            sampler, related = triplet_sampler(config, model, data, processes, anew=not resume)
            learning = learning_parts(model, config.optim.trainable)
            pictures = RememberedFootage(data.training)
            trainer = Trainer(
                config,
                model,
                SnippetEmbedder(model, pictures, recipe(config.augmentation), learning),
                sampler,
                _validation(config, model, data, learning),
                related=related,
                processes=processes,
                identity=data.identity(),
            )
            with step_progress(quiet) as on_step:
                return trainer.run(resume=resume, on_step=on_step, stop=stop)


def _validation(config: TrainConfig, model: ViSiL, data: Split, learning: Sequence[Part]) -> Validation:
    """Fixed edits of the held-out videos, to be found again."""
    copies = edited_copies(
        data.validation,
        config.data.window,
        VALIDATION_SEED,
        data.validation_pairs,
        strung=config.data.strings > 0 and len(data.validation) >= STRUNG,
    )
    judged = SnippetEmbedder(model, data.validation, recipe(config.augmentation), learning)
    return Validation(judged, *copies)


def _frames_alone(
    config: TrainConfig, model: ViSiL, data: Split, processes: Processes, before: float
) -> Outcome:
    """The end of a run that has no video stage."""
    score = _validation(config, model, data, ()).mean_average_precision()
    if processes.first:
        model.save_pretrained(config.out)
    return Outcome(0, config.frames.steps, before, score, 0)


def recipe(name: Augmentation) -> PictureTransform:
    """The picture transforms of a configuration."""
    recipes: dict[Augmentation, PictureTransform] = {
        "paper": PaperPositive(),
        "heavy": Heavy(),
        "mild": Mild(),
    }
    return recipes[name]


def _footage(config: TrainConfig, model: ViSiL, processes: Processes, tell: Tell, quiet: bool) -> Split:
    """Decoded by the first process; the others then find the frames on disk."""
    cache = _cache(config)
    if not processes.first:
        processes.wait()
    with video_progress("reading", quiet) as progress:
        data = read_footage(config.data, model.config.sampling, cache, tell, progress)
    if processes.first:
        processes.wait()
    tell(f"{len(data.training)} videos to learn from, {len(data.validation)} to validate on")
    return data


def _cache(config: TrainConfig) -> Path:
    return Path(config.data.cache) if config.data.cache is not None else Path(config.out) / "frames"


def _whiten(model: ViSiL, footage: Footage, out: Path, processes: Processes, resume: bool) -> None:
    """Fit the whitening once, and give it to every process and to a run that goes on."""
    folder = out / START
    if processes.first and not (resume and _has(folder, model)):
        fit_on_footage(model, footage)
        model.save_pretrained(folder, include_backbone=False)
    processes.wait()
    found = ViSiL.from_pretrained(folder).whitening
    if found is None or not _has(folder, model):
        raise UsageError(f"{folder}: changed while training began; start again")
    model.whitening = found.to(model.device)


def _has(folder: Path, model: ViSiL) -> bool:
    try:
        return read_config(folder) == model.config
    except ModelError:
        return False


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made the output folder: {error.strerror}") from error


def _nothing(_: str) -> None:
    """The other processes keep quiet."""
