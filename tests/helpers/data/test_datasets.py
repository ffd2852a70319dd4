"""Data sets: rendered lazily, downloaded safely, split so that calibration and validation share no image."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import ImageFolder

from helpers.data import digits, imagenet
from helpers.data.datasets import SOURCES, load_dataset, prepare
from helpers.data.downloads import Source
from tests.helpers.data.local_server import LocalServer, local_server, url_of_nothing
from trtcpu.errors import DataError, InputError


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as running:
        yield running


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the splits small enough to render whole ones."""
    few = {split: digits.split_digits(split)[:20] for split in digits.SPLITS}
    monkeypatch.setattr(digits, "split_digits", few.__getitem__)
    monkeypatch.setattr(digits, "_VARIANTS", {split: 1 for split in digits.SPLITS})


def image_bytes(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), (shade % 256, shade // 256, 9)).save(buffer, format="JPEG")
    return buffer.getvalue()


def make_folder(folder: Path, classes: list[str], count: int) -> Path:
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            (folder / name / f"{index}.JPEG").write_bytes(image_bytes(number * 100 + index))
    return folder


def tar_gz(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def serve(server: LocalServer, name: str, content: bytes) -> Source:
    server.files[name] = content
    return Source(f"{server.url}/{name}", "md5:" + hashlib.md5(content).hexdigest())


def test_only_the_images_asked_for_are_rendered_and_a_larger_limit_adds_the_rest(tmp_path: Path) -> None:
    data = load_dataset(root=tmp_path, progress=False)
    first = data.images("validation", limit=3)
    times = [path.stat().st_mtime_ns for path, _ in first]
    assert len(list(tmp_path.rglob("*.png"))) == 3
    more = data.images("validation", limit=5)
    assert len(list(tmp_path.rglob("*.png"))) == 5
    assert more[:3] == first and [path.stat().st_mtime_ns for path, _ in first] == times


def test_rendered_files_hold_the_renderer_s_pixels(tmp_path: Path) -> None:
    path, label = load_dataset(root=tmp_path, progress=False).images("calibration", limit=1)[0]
    digit, variant = next(iter(digits.variants("calibration")))
    assert np.array_equal(np.asarray(Image.open(path)), digits.render_variant(digit, variant))
    assert label == digits.load_digits()[1][digit] and path.parent.name == str(label)


@pytest.mark.usefixtures("few_digits")
def test_a_whole_split_is_a_folder_that_torchvision_reads_with_the_same_labels(tmp_path: Path) -> None:
    data = load_dataset(root=tmp_path, progress=False)
    folder = ImageFolder(str(data.split("validation")))
    assert folder.classes == data.classes == [str(label) for label in range(10)]
    assert sorted((Path(path), label) for path, label in folder.samples) == sorted(data.images("validation"))
    assert data.num_outputs == 10


def test_some_images_are_copied_into_a_folder_of_their_own(tmp_path: Path) -> None:
    data = load_dataset(root=tmp_path / "data", progress=False)
    copied = data.copy("validation", tmp_path / "copies", limit=12)
    assert len(list((tmp_path / "data").rglob("*.png"))) == 12, "only what is copied is rendered"
    wanted = data.images("validation", limit=12)
    assert {path.name: path.parent.name for path in copied.glob("*/*")} == {p.name: str(label) for p, label in wanted}
    assert all((copied / path.parent.name / path.name).read_bytes() == path.read_bytes() for path, _ in wanted)


def test_whoever_lists_a_split_while_it_is_rendered_finds_whole_images_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def render_and_look(digit: int, variant: int) -> np.ndarray:
        seen.extend(tmp_path.rglob("validation/*/*"))
        return render(digit, variant)

    render = digits.render_variant
    monkeypatch.setattr(digits, "render_variant", render_and_look)
    images = {path for path, _ in load_dataset(root=tmp_path, progress=False).images("validation", limit=12)}
    assert seen and set(seen) <= images


def test_two_who_ask_at_once_render_each_image_once_and_what_a_killed_one_left_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render, rendered = digits.render_variant, []

    def counted(digit: int, variant: int) -> np.ndarray:
        rendered.append((digit, variant))
        return render(digit, variant)

    monkeypatch.setattr(digits, "render_variant", counted)
    first, second = (load_dataset("digits", tmp_path, progress=False) for _ in range(2))
    assert first.missing("calibration") == len(list(digits.variants("calibration")))
    first.images("calibration", limit=1)
    left = first.folder / ".0001-0-deadbeef.png"
    left.write_bytes(b"half")
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda data: data.images("calibration", limit=10), (first, second)))
    assert found[0] == found[1] and len(rendered) == len(set(rendered)) == 10
    assert first.missing("calibration") == len(list(digits.variants("calibration"))) - 10 and not left.exists()


@pytest.mark.usefixtures("few_digits")
def test_an_interrupted_rendering_leaves_no_half_image_and_is_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_dataset(root=tmp_path, progress=False)
    calls = []

    def stop_at_the_fifth(digit: int, variant: int) -> np.ndarray:
        calls.append(digit)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return render(digit, variant)

    render = digits.render_variant
    monkeypatch.setattr(digits, "render_variant", stop_at_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        data.images("validation")
    assert all(Image.open(path).load() is not None for path in tmp_path.rglob("*.png"))
    assert not [path for path in tmp_path.rglob(".*.png")]
    assert len(data.images("validation")) == 20 == len(list(tmp_path.rglob("*.png")))


@pytest.mark.usefixtures("few_digits")
def test_a_seed_gives_another_order_of_the_same_images(tmp_path: Path) -> None:
    data = load_dataset(root=tmp_path, progress=False)
    plain, shuffled = data.images("train"), data.images("train", seed=1)
    assert shuffled != plain and sorted(shuffled) == sorted(plain) and shuffled == data.images("train", seed=1)


def test_the_environment_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path / "elsewhere"))
    path, _ = load_dataset(progress=False).images("train", limit=1)[0]
    assert path.is_relative_to(tmp_path / "elsewhere")


def _state(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of all that is below a folder; a file that came and went changes its folder's."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in [folder, *folder.rglob("*")]}


def test_nothing_is_written_to_a_prepared_folder(
    few_digits: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path / "shared"))
    assert prepare("digits") == tmp_path / "shared"
    before = _state(tmp_path / "shared")
    data = load_dataset("digits")
    assert all(path.is_file() for split in ("calibration", "validation") for path, _ in data.images(split, seed=3))
    assert len(ImageFolder(data.split("calibration"))) == 20
    data.copy("validation", tmp_path / "own", limit=5)
    assert _state(tmp_path / "shared") == before


def test_a_prepared_imagenette_and_its_weights_are_read_without_writing(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "imagenette", serve(server, "imagenette2-320.tgz", imagenette_archive()))
    weights: list[tuple[str, str]] = []
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data, root: weights.append((name, data)))
    prepare("imagenette", tmp_path / "shared")
    assert weights == [("resnet18", "imagenette"), ("resnet50", "imagenette")]
    before, asked = _state(tmp_path / "shared"), server.requests
    data = load_dataset("imagenette", tmp_path / "shared")
    assert data.images("calibration") and data.images("validation")
    assert _state(tmp_path / "shared") == before and server.requests == asked


def test_a_place_that_is_no_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="TRT_LAB_DATA"):
        load_dataset(root=tmp_path / "file", progress=False).images("train", limit=1)


@pytest.mark.parametrize("name", ["mnist", "", "imagenet:", "imagenet"])
def test_an_unknown_data_set_lists_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match="choose one of digits, imagenette"):
        load_dataset(name)


def test_an_unknown_split_and_a_limit_below_one_are_refused(tmp_path: Path) -> None:
    data = load_dataset(root=tmp_path)
    with pytest.raises(InputError, match="'test'.*train, calibration, validation"):
        data.images("test")
    with pytest.raises(InputError, match="0 images"):
        data.images("train", limit=0)


def imagenette_archive() -> bytes:
    files = {
        f"imagenette2-320/{split}/{synset}/{index}.JPEG": image_bytes(index)
        for split, count in (("train", 4), ("val", 3))
        for synset in imagenet.IMAGENETTE
        for index in range(count)
    }
    return tar_gz(files)


def test_imagenette_is_downloaded_once_and_labelled_as_imagenet(server: LocalServer, tmp_path: Path) -> None:
    source = serve(server, "imagenette2-320.tgz", imagenette_archive())
    for _ in range(2):
        data = load_dataset("imagenette", tmp_path, progress=False, source=source)
    assert server.requests == 1 and data.num_outputs == 1000
    found = {(path.parent.name, label) for path, label in data.images("validation")}
    assert found == {(synset, label) for synset, label in imagenet.synsets().items() if synset in imagenet.IMAGENETTE}
    assert [len(data.images(split)) for split in ("train", "validation", "calibration")] == [40, 30, 8]
    assert not list((tmp_path / "downloads").iterdir())


def test_a_truncated_imagenette_leaves_no_data_set(server: LocalServer, tmp_path: Path) -> None:
    whole = imagenette_archive()
    source = serve(server, "imagenette2-320.tgz", whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        load_dataset("imagenette", tmp_path, progress=False, source=source)
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"] and not list((tmp_path / "downloads").iterdir())


@pytest.mark.parametrize("name", ["imagenette", "cifar10"])
def test_a_wrong_checksum_or_a_missing_server_is_one_clear_line(server: LocalServer, tmp_path: Path, name: str) -> None:
    filename = SOURCES[name].filename
    server.files[filename] = b"something else"
    with pytest.raises(DataError, match="expected .*run again"):
        load_dataset(name, tmp_path, False, Source(f"{server.url}/{filename}", SOURCES[name].checksum))
    with pytest.raises(DataError, match="check the connection"):
        load_dataset(name, tmp_path, False, Source(f"{url_of_nothing()}/{filename}", SOURCES[name].checksum))


def test_an_imagenet_folder_without_training_images_is_split_in_two(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "images", ["n01440764", "n01443537"], 10)
    data = load_dataset(f"imagenet:{folder}", tmp_path / "root", progress=False)
    calibration, validation = ({path.resolve() for path, _ in data.images(s)} for s in ("calibration", "validation"))
    assert len(calibration) == 4 and len(validation) == 16 and not calibration & validation
    assert ImageFolder(str(data.split("calibration"))).classes == ["n01440764", "n01443537"]
    assert [label for _, label in data.images("validation", limit=4)] == [0, 1, 0, 1]
    with pytest.raises(InputError, match="no train split"):
        data.split("train")


def test_an_imagenet_folder_may_name_its_classes_by_label_and_have_val_and_train(tmp_path: Path) -> None:
    make_folder(tmp_path / "images" / "val", ["7", "999"], 2)
    make_folder(tmp_path / "images" / "train", ["7", "999"], 5)
    data = load_dataset(f"imagenet:{tmp_path / 'images'}", tmp_path / "root", progress=False)
    assert [label for _, label in data.images("validation")] == [7, 999, 7, 999]
    assert [len(data.images(split)) for split in ("calibration", "train")] == [2, 10]


def test_folders_that_are_no_imagenet_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read the image folder .*missing"):
        load_dataset(f"imagenet:{tmp_path / 'missing'}", tmp_path)
    make_folder(tmp_path / "pets", ["cats", "dogs"], 1)
    with pytest.raises(DataError, match="not ImageNet's: cats, dogs"):
        load_dataset(f"imagenet:{tmp_path / 'pets'}", tmp_path)
    (tmp_path / "empty" / "n01440764").mkdir(parents=True)
    with pytest.raises(DataError, match="holds no images"):
        load_dataset(f"imagenet:{tmp_path / 'empty'}", tmp_path)


def cifar_batch(count: int, seed: int) -> np.ndarray:
    batch = np.random.RandomState(seed).randint(0, 256, (count, 3073)).astype(np.uint8)
    batch[:, 0] = np.arange(count) % 10
    return batch


def test_cifar_10_is_converted_from_its_binary_version(server: LocalServer, tmp_path: Path) -> None:
    batches = {f"data_batch_{i}": cifar_batch(20, i) for i in range(1, 6)} | {"test_batch": cifar_batch(20, 0)}
    files = {f"cifar-10-batches-bin/{name}.bin": batch.tobytes() for name, batch in batches.items()}
    source = serve(server, "cifar-10-binary.tar.gz", tar_gz(files))
    data = load_dataset("cifar10", tmp_path, progress=False, source=source)
    assert data.classes[3] == "cat" and data.num_outputs == 10
    assert [len(data.images(split)) for split in ("train", "validation", "calibration")] == [100, 20, 20]
    path, label = sorted(data.images("validation"), key=lambda item: item[0].name)[3]
    record = batches["test_batch"][3]
    assert label == record[0] == 3 and path.parent.name == "cat"
    assert np.array_equal(np.asarray(Image.open(path)).transpose(2, 0, 1).ravel(), record[1:])


def test_a_cifar_archive_with_other_content_is_one_clear_line(server: LocalServer, tmp_path: Path) -> None:
    files = {"cifar-10-batches-bin/data_batch_1.bin": b"\x63" * 3073}
    source = serve(server, "cifar-10-binary.tar.gz", tar_gz(files))
    with pytest.raises(DataError, match="no CIFAR-10 batch"):
        load_dataset("cifar10", tmp_path, progress=False, source=source)
    assert not (tmp_path / "cifar10-png").exists()
