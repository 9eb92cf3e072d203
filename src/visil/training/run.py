"""A training run from its configuration: footage, whitening, the frame stage, mined triplets, the video stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.edits.clips import Heavy, Mild, PaperPositive, PictureTransform
from visil.errors import ModelError, UsageError, printable
from visil.files import make_folder
from visil.matching.blank import GROUND_LEFT_TO_READER, GROUND_SHARE
from visil.model.config import read_config
from visil.progress import Counted
from visil.training.cached_footage import CachedFootage
from visil.training.config import Augmentation, Part, TrainConfig
from visil.training.dataset import Split, drawn_from, read_footage, split, triplet_sampler
from visil.training.distributed import Processes, joined
from visil.training.embedding import SnippetEmbedder
from visil.training.feature_footage import FeatureEmbedder, FeatureFootage
from visil.training.footage import Footage, JoinedFootage, RememberedFootage, SomeFootage
from visil.training.frame_bank import FrameBank
from visil.training.frames import train_frames
from visil.training.pairs import Pairs, load_pairs, save_pairs
from visil.training.pictures import Pictures, SlideShows, read_pictures
from visil.training.reader_stage import PAIRS, learn_reader, make_pairs, making, stored_pairs
from visil.training.recipes import described
from visil.training.segments import SegmentPair
from visil.training.starting_model import starting_model
from visil.training.trainable import learning_parts
from visil.training.trainer import Outcome, Step, stop_on_interrupt
from visil.training.validation import Validation, edited_copies
from visil.training.videos import VideoObjective, video_trainer
from visil.training.whitening import fit_on_footage, fit_rotation
from visil.video import Sampling

START = "start"
"""Folder of the model that training began with, where its whitening was fitted by the run itself."""

FRAME_STAGE = "frame-stage"
"""Folder of the frame stage's checkpoints, its log, and the model as it leaves it."""

VALIDATION_SEED = 1
"""Of the edits that every run is validated on."""

STRUNG = 20
"""From so many held-out videos on, clips are strung together, with every second video as foreign footage."""


@dataclass(frozen=True)
class Reading:
    """Videos that have been read, of how many, and the last one's path."""

    what: str
    done: int
    total: int
    path: str


UNANNOTATED = (
    "no annotations: the paper's first pool, annotated pairs, is left out; all positives are edited copies"
)

Report = Callable[[str | Reading | Step], None]
"""Called with what happens: a line for people, videos read, a step made."""


def print_lines(fact: str | Reading | Step) -> None:
    """A report that prints the lines for people and nothing else."""
    if isinstance(fact, str):
        print(fact)


def train(config: TrainConfig, *, resume: bool = True, report: Report = print_lines) -> Outcome:
    """Train as ``config`` says, in this process or in all that torchrun started; the first of them reports."""
    with joined(config.device) as processes:
        if not processes.first:
            report = _nothing
        make_folder(config.out, "the output folder")
        teacher = _teacher(config, processes)
        start = starting_model(config)
        model = start.model.to(processes.device)
        report(described(config, model.config))
        if (config.recipe or "").startswith("paper") and config.data.annotations is None:
            report(UNANNOTATED)
        if config.reader.wanted and not config.frames.steps:
            if start.fit_whitening:
                raise UsageError("the reader learns on features of a finished model: set model.start to one")
            with stop_on_interrupt() as stop:
                return _reader_stage(config, model, processes, report, resume, stop)
        data = _footage(config, model, processes, report)
        if start.fit_whitening:
            _whiten(model, data.training, Path(config.out), processes, resume)
        if start.fit_rotation:
            fit_rotation(model, data.training)
        with stop_on_interrupt() as stop:
            before = None
            if config.frames.steps:
                if not config.optim.epochs:
                    before = _validation(config, model, data, ()).mean_average_precision()
                if not _frame_stage(config, model, data, processes, report, resume, stop):
                    return Outcome(0, 0, 0.0, 0.0, 0, stopped=True)
                if config.reader.wanted:
                    return _reader_stage(config, model, processes, report, resume, stop)
            if before is not None:
                return _frames_alone(config, model, data, processes, before)
            return _video_stage(config, model, data, processes, report, resume, stop, teacher)


def train_on_features(
    config: TrainConfig,
    model: ViSiL,
    footage: FeatureFootage,
    pairs: Sequence[SegmentPair[int]] = (),
    *,
    resume: bool = True,
    report: Report = print_lines,
) -> Outcome:
    """Train attention and comparator of ``model`` on videos that are features, as ``config`` says of all but videos.

    ``pairs`` are annotated ones among them, by their numbers; a share of the videos is held out to validate on.
    """
    with joined(config.device) as processes:
        make_folder(config.out, "the output folder")
        model = model.to(processes.device)
        data = split(footage, pairs, config.data.held_out, most=config.data.held_out_most)
        if processes.first:
            report(f"{len(data.training)} videos to learn from, {len(data.validation)} to validate on")
        with stop_on_interrupt() as stop:
            return _video_stage(
                config, model, data, processes, report if processes.first else _nothing, resume, stop
            )


def transforms(name: Augmentation) -> PictureTransform:
    """The picture transforms of a configuration."""
    found: dict[Augmentation, PictureTransform] = {
        "paper": PaperPositive(),
        "heavy": Heavy(),
        "mild": Mild(),
    }
    return found[name]


def embedder(
    config: TrainConfig,
    model: ViSiL,
    footage: Footage,
    learning: Sequence[Part] = (),
    *,
    kept_bytes: int | None = None,
) -> SnippetEmbedder:
    """Makes vectors of snippets of these videos; without ``kept_bytes``, pictures are remembered, too."""
    if isinstance(footage, FeatureFootage):
        return FeatureEmbedder(model, footage, learning)
    if kept_bytes is None:
        footage = RememberedFootage(footage)
    return SnippetEmbedder(model, footage, transforms(config.augmentation), learning, kept_bytes=kept_bytes)


def _frame_stage(
    config: TrainConfig,
    model: ViSiL,
    data: Split,
    processes: Processes,
    report: Report,
    resume: bool,
    stop: Callable[[], bool],
) -> bool:
    """Run the stage in the first process and give its result to all; False where it was stopped before its end."""
    folder = Path(config.out) / FRAME_STAGE
    done = True
    if processes.first:
        sampling = replace(model.config.sampling, fps=config.frames.fps)
        counted = _counted(report, "reading frames")
        footage = CachedFootage(data.training.names, _cache(config), sampling, progress=counted)
        pictures = _pictures(config, sampling, GROUND_SHARE, report) if config.data.pictures else None
        bank = FrameBank.read(footage, model.device, pictures)
        report(f"{bank.first_picture} frames of {len(bank)} videos to learn from first")
        if pictures is not None:
            report(f"and {len(pictures.kinds)} pictures of {len(set(pictures.kinds))} kinds")
        done = train_frames(
            model,
            bank,
            config.frames,
            seed=config.seed,
            on_step=report,
            folder=folder,
            identity=data.identity() | ({} if pictures is None else {"pictures": pictures.identity}),
            checkpoint_steps=config.checkpoint_steps,
            tensorboard=config.tensorboard,
            resume=resume,
            stop=stop,
        )
        if done:
            model.save_pretrained(folder)
    (stopped,) = processes.summed([0.0 if done else 1.0])
    if stopped:
        return False
    if not processes.first:
        learned = ViSiL.from_pretrained(folder)
        model.load_state_dict(learned.state_dict(), strict=False)
    return True


def _frames_alone(
    config: TrainConfig, model: ViSiL, data: Split, processes: Processes, before: float
) -> Outcome:
    """The end of a run that has no video stage."""
    score = _validation(config, model, data, ()).mean_average_precision()
    if processes.first:
        model.save_pretrained(config.out)
    return Outcome(0, config.frames.steps, before, score, 0)


def _reader_stage(
    config: TrainConfig,
    model: ViSiL,
    processes: Processes,
    report: Report,
    resume: bool,
    stop: Callable[[], bool],
) -> Outcome:
    """Make pairs where there are none yet, and learn the reader from them: in the first process, for all."""
    outcome = Outcome(0, 0, 0.0, 0.0, 0)
    if processes.first:
        outcome = _learned_reader(config, model, report, resume, stop)
    processes.wait()
    return outcome


def _learned_reader(
    config: TrainConfig, model: ViSiL, report: Report, resume: bool, stop: Callable[[], bool]
) -> Outcome:
    stage, outcome = config.reader, Outcome(0, 0, 0.0, 0.0, 0)
    if stage.pairs is not None:
        pairs: Pairs | None = load_pairs(Path(stage.pairs))[0]
    else:
        pairs = _pairs(config, model, report, resume, stop)
    if pairs is None:
        return replace(outcome, stopped=True)
    if pairs.fingerprint != model.fingerprint():
        raise UsageError(f"{stage.pairs}: was made from features of another model than {config.model.start}")
    copies = sum(pair.relation == "copy" for pair in pairs.training)
    report(f"{len(pairs.training)} pairs to learn from, {copies} that share footage")
    if not stage.epochs:
        return outcome
    learned, outcome = learn_reader(
        model,
        pairs,
        stage,
        Path(config.out),
        seed=config.seed,
        checkpoint_steps=config.checkpoint_steps,
        tensorboard=config.tensorboard,
        resume=resume,
        on_step=report,
        stop=stop,
    )
    if not outcome.stopped:
        learned.save_pretrained(config.out)
    return outcome


def _slide_shows(config: TrainConfig, model: ViSiL, report: Report) -> SlideShows | None:
    """Videos made of the pictures, where there are any."""
    if not config.data.pictures or not config.reader.shows:
        return None
    pictures = _pictures(config, model.config.sampling, GROUND_LEFT_TO_READER, report)
    return SlideShows(pictures, config.reader.shows, fps=config.frames.fps, seed=config.seed)


def _pictures(config: TrainConfig, sampling: Sampling, ground_share: float, report: Report) -> Pictures:
    counted = _counted(report, "reading pictures")
    pictures = read_pictures(config.data.pictures, sampling, counted, ground_share)
    for path, reason in pictures.failed:
        report(f"left out: {printable(path)}: {reason}")
    return pictures


def _pairs(
    config: TrainConfig, model: ViSiL, report: Report, resume: bool, stop: Callable[[], bool]
) -> Pairs | None:
    """The pairs in the output folder, made now unless they are there already; None: stopped before they were."""
    data = read_footage(
        config.data,
        replace(model.config.sampling, fps=config.frames.fps),
        _cache(config),
        report,
        _counted(report, "reading"),
    )
    shows = _slide_shows(config, model, report)
    count = round(len(shows) * config.data.held_out) if shows is not None else 0
    training, validation = data.training, data.validation
    if shows is not None:
        training = JoinedFootage([training, SomeFootage(shows, range(count, len(shows)))])
        validation = JoinedFootage([validation, SomeFootage(shows, range(count))])
    identity = {
        **data.identity(),
        "pictures": shows.identity if shows is not None else "none",
        "model": model.fingerprint(),
        "seed": config.seed,
        **making(config.reader),
    }
    path = Path(config.out) / PAIRS
    stored = stored_pairs(path, identity) if resume else None
    if stored is not None:
        return stored
    report(f"{len(training)} videos to make pairs of, {len(validation)} to validate on")
    made = make_pairs(
        model,
        training,
        validation,
        config.reader,
        Path(config.out) / "pieces",
        seed=config.seed,
        progress=_counted(report, "embedding"),
        stop=stop,
    )
    if made is None:
        return None
    save_pairs(path, made, identity)
    report(f"{path}: {len(made.training) + len(made.validation)} pairs, {path.stat().st_size >> 20} MB")
    return made


def _video_stage(
    config: TrainConfig,
    model: ViSiL,
    data: Split,
    processes: Processes,
    report: Report,
    resume: bool,
    stop: Callable[[], bool],
    teacher: ViSiL | None = None,
) -> Outcome:
    """Mine triplets, and learn from them."""
    sampler, related = triplet_sampler(config, model, data, processes, anew=not resume)
    report(drawn_from(sampler, data))
    learning = learning_parts(model, config.optim.trainable)
    objective = VideoObjective(
        config,
        model,
        embedder(config, model, data.training, learning),
        sampler,
        _validation(config, model, data, learning),
        related=related,
        processes=processes,
        teacher=None if teacher is None else embedder(config, teacher, data.training),
    )
    return video_trainer(objective, data.identity()).run(resume=resume, on_step=report, stop=stop)


def _teacher(config: TrainConfig, processes: Processes) -> ViSiL | None:
    """The model that a student learns from, where there is one."""
    if config.loss.teacher is None:
        return None
    return load(config.loss.teacher).to(processes.device).eval().requires_grad_(False)


def _validation(config: TrainConfig, model: ViSiL, data: Split, learning: Sequence[Part]) -> Validation:
    """Fixed edits of the held-out videos, to be found again."""
    copies = edited_copies(
        data.validation,
        config.data.window,
        VALIDATION_SEED,
        data.validation_pairs,
        strung=config.data.strings > 0 and len(data.validation) >= STRUNG,
    )
    # Validation keeps its vectors itself, away from the GPU.
    judged = embedder(config, model, data.validation, learning, kept_bytes=0)
    return Validation(judged, *copies)


def _footage(config: TrainConfig, model: ViSiL, processes: Processes, report: Report) -> Split:
    """Decoded by the first process; the others then find the frames on disk."""
    if not processes.first:
        processes.wait()
    data = read_footage(
        config.data, model.config.sampling, _cache(config), report, _counted(report, "reading")
    )
    if processes.first:
        processes.wait()
    report(f"{len(data.training)} videos to learn from, {len(data.validation)} to validate on")
    return data


def _counted(report: Report, what: str) -> Counted:
    return lambda done, total, path: report(Reading(what, done, total, path))


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


def _nothing(_: str | Reading | Step) -> None:
    """The other processes keep quiet."""
