"""Models: the lab's own weights are what their record says, ImageNet's arrive safely, bad files are one clear line."""

import hashlib
import io
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image

from helpers.data import digits, imagenet, models
from helpers.data.checkpoint import DENSITY, load_checkpoint, save_checkpoint
from helpers.data.downloads import Source
from helpers.data.models import MODELS, WEIGHTS, load_model
from helpers.tools.files import sha256
from tests.helpers.data.local_server import LocalServer, local_server, url_of_nothing
from trtcpu.errors import DataError, InputError
from trtlab.images.preprocessing import IMAGENET

ROOT = Path(__file__).resolve().parents[3]
SMALL = "squeezenet1_1"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as running:
        yield running


def serve_state(server: LocalServer, state: dict[str, torch.Tensor], name: str) -> Source:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    server.files[name] = buffer.getvalue()
    return Source(f"{server.url}/{name}", "sha256:" + hashlib.sha256(buffer.getvalue()).hexdigest()[:8])


@pytest.mark.parametrize("name", MODELS)
def test_the_record_beside_the_weights_describes_them(name: str) -> None:
    record = json.loads((WEIGHTS / f"{name}.json").read_text())
    assert record["sha256"] == sha256(WEIGHTS / f"{name}.npz")
    assert record["renderer_version"] == digits.VERSION
    assert record["validation_images"] >= 2000 and 90 <= record["top1_fp32_percent"] <= 97


@pytest.mark.parametrize("name", MODELS)
def test_the_loaded_weights_are_those_of_the_file_on_a_freshly_drawn_mask(name: str) -> None:
    model, rng = load_model(name), np.random.RandomState(0)
    assert not model.training and model.fc.out_features == 10
    with np.load(WEIGHTS / f"{name}.npz") as file:
        for path, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                mask = rng.random_sample(tuple(module.weight.shape)) < (1.0 if path == "conv1" else DENSITY)
                weight = module.weight.detach().numpy()
                assert np.array_equal(weight[mask], file[f"kept/{path}.weight"].astype(np.float32))
                assert not weight[~mask].any()
        assert np.array_equal(model.fc.bias.detach().numpy(), file["other/fc.bias"])


@pytest.mark.parametrize("name", MODELS)
def test_each_recorded_mistake_of_preprocessing_costs_five_points(name: str) -> None:
    record = json.loads((WEIGHTS / f"{name}.json").read_text())
    costs = {m: record["top1_fp32_percent"] - top1 for m, top1 in record["top1_fp32_percent_with_mistake"].items()}
    assert {"BGR", "squeezed", "top left corner", "no mean", "0 to 255"} <= costs.keys()
    assert min(costs.values()) >= 5, costs


@pytest.mark.slow
def test_mistakes_of_preprocessing_cost_resnet18_many_of_the_first_images() -> None:
    """What the training script takes for correct is the lab's own preprocessing."""
    script = runpy.run_path(str(ROOT / "datasets" / "train_weights.py"))
    pairs, model = list(digits.variants("validation"))[:25], load_model("resnet18")
    images = [Image.fromarray(image) for image in digits.render_many(pairs)]
    labels = torch.from_numpy(digits.load_digits()[1][[digit for digit, _ in pairs]].astype(np.int64))
    found = {}
    for name in ("correct", "BGR", "squeezed", "top left corner", "no mean", "0 to 255, then mean and deviation"):
        geometry, values = script["PREPROCESSING"][name]
        pixels = torch.from_numpy(np.stack([np.asarray(script["GEOMETRIES"][geometry](image)) for image in images]))
        found[name] = script["top1"](model, (pixels, labels), values, "cpu")
    with torch.inference_mode():
        classes = model(torch.from_numpy(np.stack([IMAGENET.to_input(image) for image in images]))).argmax(1)
    correct = found.pop("correct")
    assert correct == 100 * int((classes == labels).sum()) / len(pairs) >= 85
    assert max(found.values()) <= correct - 20, found


def test_a_saved_checkpoint_is_read_back_up_to_half_precision(tmp_path: Path) -> None:
    model = torchvision.models.resnet18(num_classes=10).eval()
    kept = save_checkpoint(model, tmp_path / "m.npz", seed=3)
    loaded = load_checkpoint(torchvision.models.resnet18(num_classes=10), tmp_path / "m.npz")
    nonzero = sum(int((m.weight != 0).sum()) for m in loaded.modules() if isinstance(m, torch.nn.Conv2d))
    assert 0.999 * kept <= nonzero <= kept
    assert torch.equal(loaded.conv1.weight, model.conv1.weight.half().float())


@pytest.mark.parametrize("damage", [lambda raw: raw[:100_000], lambda raw: b"", lambda raw: b"PK\x03\x04" + bytes(99)])
def test_damaged_weights_are_one_clear_line(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "weights.npz"
    path.write_bytes(damage((WEIGHTS / "resnet18.npz").read_bytes()))
    with pytest.raises(DataError, match=r"^[^\n]*weights\.npz does not hold weights of this model[^\n]*$"):
        load_checkpoint(torchvision.models.resnet18(num_classes=10), path)


def test_weights_of_another_model_or_none_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not hold weights of this model"):
        load_checkpoint(torchvision.models.resnet34(num_classes=10), WEIGHTS / "resnet18.npz")
    with pytest.raises(DataError, match="no weights at"):
        load_checkpoint(torchvision.models.resnet18(num_classes=10), tmp_path / "missing.npz")


def test_an_unknown_model_suggests_a_close_one() -> None:
    with pytest.raises(InputError, match="'resnet5O'.*resnet50"):
        load_model("resnet5O")


def test_a_model_without_weights_of_the_lab_is_refused_before_anything_is_downloaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="resnet34 has no weights for the lab's digits.*imagenette"):
        load_model("resnet34", root=tmp_path, source=Source("http://127.0.0.1:9/none", "sha256:0"))
    assert not any(tmp_path.iterdir())


def test_imagenet_weights_are_downloaded_once_and_used(server: LocalServer, tmp_path: Path) -> None:
    reference = torchvision.models.get_model(SMALL).eval()
    source = serve_state(server, reference.state_dict(), f"{SMALL}.pth")
    for _ in range(2):
        model = load_model(SMALL, "imagenette", root=tmp_path, progress=False, source=source)
    batch = torch.rand(1, 3, 64, 64)
    assert torch.equal(model(batch), reference(batch)) and server.requests == 1


def test_imagenet_weights_that_cannot_be_downloaded_are_one_clear_line(tmp_path: Path) -> None:
    source = Source(url_of_nothing() + "/resnet50.pth", "sha256:0676ba61")
    with pytest.raises(DataError, match="cannot download.*check the connection"):
        load_model("resnet50", "imagenette", root=tmp_path, progress=False, source=source)


def test_a_download_with_another_model_s_weights_is_refused_and_removed(server: LocalServer, tmp_path: Path) -> None:
    source = serve_state(server, {"other": torch.zeros(1)}, "w.pth")
    with pytest.raises(DataError, match=f"does not hold weights of {SMALL}"):
        load_model(SMALL, "imagenette", root=tmp_path, progress=False, source=source)
    assert not list((tmp_path / "weights").iterdir())


def test_weights_that_would_run_code_on_loading_are_refused(server: LocalServer, tmp_path: Path) -> None:
    content = b"cos\nsystem\n(S'touch " + str(tmp_path / "owned").encode() + b"'\ntR."
    server.files["w.pth"] = content
    source = Source(f"{server.url}/w.pth", "sha256:" + hashlib.sha256(content).hexdigest())
    with pytest.raises(DataError):
        load_model(SMALL, "imagenette", root=tmp_path, progress=False, source=source)
    assert not (tmp_path / "owned").exists()


def test_every_torchvision_classifier_has_an_address_with_a_checksum() -> None:
    for name in torchvision.models.list_models(module=torchvision.models):
        assert models._imagenet_source(name).checksum.startswith("sha256:")
    assert models._imagenet_source("resnet50").checksum == "sha256:0676ba61"


def test_densenet_s_old_keys_become_today_s() -> None:
    with torch.device("meta"):
        today = torchvision.models.densenet121().state_dict()
    old = [key.replace("norm1", "norm.1").replace("norm2", "norm.2") for key in today]
    old = [key.replace("conv1", "conv.1").replace("conv2", "conv.2") for key in old]
    assert old != list(today) and [models._OLD_DENSENET_KEY.sub(r"\1\2", key) for key in old] == list(today)


def test_for_cifar_10_an_output_is_the_mean_of_its_imagenet_classes(server: LocalServer, tmp_path: Path) -> None:
    reference = torchvision.models.shufflenet_v2_x0_5().eval()
    source = serve_state(server, reference.state_dict(), "s.pth")
    model = load_model("shufflenet_v2_x0_5", "cifar10", root=tmp_path, progress=False, source=source)
    batch = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        logits = reference(batch)
        expected = torch.stack([logits[:, group].mean(1) for group in imagenet.CIFAR10_GROUPS.values()], dim=1)
        assert torch.allclose(model(batch), expected, atol=1e-5)


def test_imagenet_s_tables_name_what_torchvision_names() -> None:
    names = imagenet.class_names()
    assert len(imagenet.synsets()) == len(names) == 1000
    for synset, name in imagenet.IMAGENETTE.items():
        assert names[imagenet.synsets()[synset]] == name
    words = {
        "airplane": "airliner|warplane",
        "automobile": "wagon|cab|convertible|jeep|limousine|minivan|racer|sports car",
        "cat": "cat|tabby",
        "deer": "hartebeest|impala|gazelle",
        "frog": "frog",
        "horse": "sorrel",
        "ship": "carrier|ship|fireboat|liner|pirate|speedboat|schooner|yawl",
        "truck": "truck|engine|van",
    }
    for group, known in words.items():
        wrong = [names[i] for i in imagenet.CIFAR10_GROUPS[group] if not any(w in names[i] for w in known.split("|"))]
        assert not wrong, (group, wrong)
    for group, first, last in (("bird", "cock", "pelican"), ("dog", "Chihuahua", "Mexican hairless")):
        members = [names[i] for i in imagenet.CIFAR10_GROUPS[group]]
        assert first in members and last in members


@pytest.mark.slow
def test_the_training_script_runs_with_torch_and_numpy_alone(tmp_path: Path) -> None:
    """Two steps on the CPU, with every package that the GPU machine may lack made unimportable."""
    absent = ("sklearn", "tqdm", "pandas", "requests", "rich", "onnx", "openvino", "scipy")
    arguments = "--model resnet18 --steps 2 --batch 2 --device cpu --validation-images 2 --workers 1 --out".split()
    code = (
        f"import sys, runpy; sys.modules.update(dict.fromkeys({absent!r}));"
        f"sys.argv = ['train_weights.py', *{arguments!r}, {str(tmp_path)!r}];"
        "runpy.run_path('datasets/train_weights.py', run_name='__main__')"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    record = json.loads((tmp_path / "resnet18.json").read_text())
    assert record["sha256"] == sha256(tmp_path / "resnet18.npz") and record["train_images"] == 4
    load_checkpoint(torchvision.models.resnet18(num_classes=10), tmp_path / "resnet18.npz")


def test_a_folder_of_ones_own_has_no_weights_and_says_what_to_do() -> None:
    with pytest.raises(InputError, match="no weights for the classes of folder:pets; bring a model .* run --onnx"):
        load_model("resnet50", data="folder:pets")
