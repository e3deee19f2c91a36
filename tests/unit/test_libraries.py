"""Checks the table of libraries (crates/libraries/src/table.rs) against the installed libraries.

Functions and their variables are looked up in the sources, options in the signatures. Libraries that are not installed are skipped.

    PYTHONPATH=tests python -m unittest tests/unit/test_libraries.py
"""

from __future__ import annotations

import ast
import re
import sysconfig
import unittest
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parents[2] / "crates/libraries/src/table.rs"
SITE = Path(sysconfig.get_path("purelib"))
STANDARD = Path(sysconfig.get_path("stdlib"))
STRING = r'"((?:[^"\\]|\\.)*)"'
CODE = rf"code\(\s*{STRING},\s*{STRING},?\s*\)"
# Names with capitals inside that are no options.
NAMES = {"PyTorch", "DataLoader", "TensorFlow", "GRPOConfig", "vLLM"}
# What is counted without a variable: threads that the interpreter numbers, a file that native code writes.
NO_VARIABLES = {"threads begun", "time_left.tsv"}
SETTING = rf"\(\s*([A-Z]\w+),\s*{STRING},?\s*\)"

# Where the options of each library are: FILE, FILE:CLASS, FILE:FUNCTION or FILE:CLASS.METHOD. The first part of the first one is the
# library's package; that of a standard module begins with `/`, as in the table.
PLACES: dict[str, list[str]] = {
    "http.server": ["/socketserver.py"],
    "gunicorn": ["gunicorn/arbiter.py"],
    "uvicorn": ["uvicorn/server.py"],
    "Flask": ["flask/app.py"],
    "aiohttp": ["aiohttp/web.py"],
    "gRPC": ["grpc/_server.py"],
    "Ray Serve": ["ray/serve/_private/replica.py"],
    "pandas": ["pandas/core/frame.py:DataFrame", "pandas/core/groupby/generic.py:DataFrameGroupBy"],
    "Polars": ["polars/expr/expr.py:Expr"],
    "Spark": ["py4j/java_gateway.py"],
    "Ray Data": ["ray/data/iterator.py:DataIterator.iter_batches"],
    "PyTorch DataLoader": ["torch/utils/data/dataloader.py:DataLoader"],
    "Grain DataLoader": ["grain/_src/python/data_loader.py:DataLoader"],
    "Grain": ["grain/_src/python/options.py:MultiprocessingOptions", "grain/_src/python/dataset/dataset.py:IterDataset"],
    "DALI": ["nvidia/dali/pipeline.py:Pipeline"],
    "WebDataset": ["webdataset/pipeline.py"],
    "mosaicml-streaming": ["streaming/base/dataloader.py"],
    "Gymnasium": ["gymnasium/vector/async_vector_env.py"],
    "Transformers": ["transformers/pipelines/base.py"],
    "DeepSpeed": ["deepspeed/runtime/engine.py"],
    "Keras PyDataset": ["keras/src/trainers/data_adapters/py_dataset_adapter.py:PyDataset"],
    "Optuna": ["optuna/study/study.py:Study.optimize", "optuna/study/study.py:Study"],
    "scikit-learn search": ["sklearn/model_selection/_search.py:GridSearchCV"],
    "Ray Train": ["ray/train/__init__.py"],
    "vLLM": ["vllm/__init__.py"],
    "SGLang": ["sglang/__init__.py"],
    "timm": ["timm/__init__.py"],
    "TRL": ["trl/trainer/grpo_config.py:GRPOConfig", "transformers/training_args.py:TrainingArguments"],
    "TRL fine-tuning": ["trl/trainer/sft_config.py:SFTConfig", "transformers/training_args.py:TrainingArguments"],
    "sentence-transformers": ["sentence_transformers/__init__.py", "transformers/training_args.py:TrainingArguments"],
    "Hugging Face Trainer": ["transformers/training_args.py:TrainingArguments"],
    "Lightning": ["lightning/pytorch/callbacks/model_checkpoint.py:ModelCheckpoint"],
    "Ultralytics": ["ultralytics/cfg/default.yaml"],
    "fastai": ["fastai/__init__.py"],
    "Ignite": ["ignite/__init__.py"],
    "MONAI": ["monai/__init__.py"],
    "MMEngine": ["mmengine/runner/runner.py:Runner", "torch/utils/data/dataloader.py:DataLoader"],
    "Accelerate": ["accelerate/__init__.py"],
    "Keras": [
        "keras/src/callbacks/model_checkpoint.py:ModelCheckpoint",
        "tensorflow/python/data/ops/dataset_ops.py:DatasetV2",
        "tensorflow/python/data/ops/dataset_ops.py:DatasetV2.map",
        "tensorflow/_api/v2/data/__init__.py",
    ],
    "Stable-Baselines3": [
        "stable_baselines3/common/env_util.py:make_vec_env",
        "stable_baselines3/common/vec_env/subproc_vec_env.py",
    ],
    "XGBoost": ["xgboost/sklearn.py:XGBModel", "xgboost/core.py:DMatrix"],
    "LightGBM": ["lightgbm/lib/lib_lightgbm.so"],
    "CatBoost": ["catboost/core.py:CatBoostClassifier"],
    "spaCy pipe": ["spacy/__init__.py", "spacy/language.py:Language", "spacy/language.py:Language.pipe"],
    "spaCy": ["spacy/__init__.py"],
    "gensim": ["gensim/models/word2vec.py:Word2Vec"],
    "scikit-learn": ["sklearn/base.py"],
    "scikit-learn prediction": ["sklearn/base.py"],
    "scikit-learn estimators with n_jobs": ["sklearn/ensemble/_forest.py:RandomForestClassifier"],
    "scikit-learn support vector machines": ["sklearn/svm/_classes.py:SVC", "sklearn/svm/_classes.py"],
    "scikit-learn gradient boosting": ["sklearn/ensemble/_hist_gradient_boosting/gradient_boosting.py"],
    "scikit-learn vectorizers": ["sklearn/feature_extraction/text.py"],
    "scikit-learn cross-validation and ensembles": ["sklearn/model_selection/_validation.py:cross_validate"],
    "datasets": ["datasets/arrow_dataset.py:Dataset.map"],
}


Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


@dataclass
class Code:
    """Functions in files, as in the table."""

    files: list[str]
    functions: list[str]


@dataclass
class Row:
    """A library of the table."""

    name: str
    # What runs the loop, what counts, and the parts.
    code: list[Code]
    # The variables of each counter.
    counters: list[tuple[Code, list[str]]]
    settings: list[tuple[str, str]]
    # What is code in the words of the settings.
    options: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, name: str, text: str) -> Row:
        def code(files: str, functions: str) -> Code:
            return Code(files.split(", "), functions.split())

        counters = []
        for one in re.finditer(rf'(?:total: Some\("(\w+)"\),[^"]*)?counter\(\s*{CODE},\s*"([^"]+)"', text):
            total, files, functions, variable = one.groups()
            counters.append((code(files, functions), [variable, *([total] if total else [])]))
        settings = [(setting, words.replace('\\"', '"')) for setting, words in re.findall(SETTING, text)]
        return cls(name, [code(*one) for one in re.findall(CODE, text)], counters, settings)


def options_of(settings: list[tuple[str, str]]) -> list[str]:
    """What is code in the words of the settings: names with `_`, dots or capitals inside, and what is called or set. Of
    a name with dots, the last part."""
    options = set()
    for _, words in settings:
        # A whole command, or a value.
        prose = re.sub(r"`[^`]*`|\"[^\"]*\"", "", words)
        if re.fullmatch(r"[\w.]+", prose):
            options.add(prose)
        for one in re.finditer(r"(?<![\w.-])([A-Za-z_]\w*(?:\.\w+)*)(\(|=)?", prose):
            name, used = one.groups()
            if used or "_" in name or "." in name or re.search(r"[a-z][A-Z]", name):
                options.add(name.split(".")[-1])
    return sorted(options - NAMES)


def table() -> str:
    """The rows, without comments, and with constants replaced by their text."""
    text = re.sub(r"(?m)^\s*//.*$", "", TABLE.read_text(encoding="utf-8"))
    text = re.sub(r"\\\n\s*", "", text)
    constants = dict(re.findall(rf"const (\w+): &str =\s*{STRING};", text))
    _, text = text.split("const LIBRARIES:")
    return re.sub(r"code\(\s*([A-Z]\w*),", lambda one: f'code("{constants[one[1]]}",', text)


def rows() -> list[Row]:
    found = [Row.read(*one) for one in re.findall(r'(?ms)^    Library \{\s*name: "([^"]+)",(.*?)^    \},$', table())]
    settings = {row.name: row.settings for row in found}
    for row in found:
        # Those of another library are options of this one, too.
        others = [one for setting, name in row.settings if setting == "SameAs" for one in settings[name]]
        row.options = options_of([one for one in [*row.settings, *others] if one[0] != "SameAs"])
    return found


@cache
def functions_of(path: Path) -> dict[str, list[Function]]:
    """The functions of a file by name, nested ones included. Of compiled code that comes with its source, only the names."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return {name: [] for name in re.findall(r"(?m)^\s*(?:cp?)?def (?:[\w*]+ )?(\w+)\(", text)}
    by_name: dict[str, list[Function]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            by_name.setdefault(node.name, []).append(node)
    return by_name


def parameters(function: Function) -> set[str]:
    arguments = function.args
    return {one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}


def variables(function: Function) -> set[str]:
    """What a function takes or assigns, be it an attribute."""
    stored = [node for node in ast.walk(function) if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store)]
    return {*parameters(function), *(node.id if isinstance(node, ast.Name) else node.attr for node in stored)}


def names_at(place: str) -> set[str]:
    """What an option may be at a place: parameters, fields, methods, and names that a module defines or imports."""
    name, _, where = place.partition(":")
    file = SITE / name
    if file.suffix == ".so":
        return {word.decode() for word in re.findall(rb"[a-z_]{4,40}", file.read_bytes())}
    if file.suffix == ".yaml":
        return set(re.findall(r"(?m)^(\w+):", file.read_text(encoding="utf-8")))
    node: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
    for part in filter(None, where.split(".")):
        node = next(one for one in ast.iter_child_nodes(node) if isinstance(one, DEFINITIONS) and one.name == part)
    if isinstance(node, FUNCTIONS):
        return {node.name, *parameters(node)}
    names = {node.name} if isinstance(node, ast.ClassDef) else set()
    for one in ast.iter_child_nodes(node):
        if isinstance(one, DEFINITIONS):
            names.add(one.name)
            names |= parameters(one) if isinstance(one, FUNCTIONS) and one.name == "__init__" else set()
        elif isinstance(one, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in one.names}
        else:
            names |= {target.id for target in ast.walk(one) if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)}
    return names


@cache
def installed(tail: str) -> list[Path]:
    """The files of the installed packages whose path ends with `tail`, or that are in the folder `tail`."""
    if tail.startswith("/"):
        return [STANDARD / tail[1:]]
    if tail.endswith("/"):
        folders = [SITE / tail] if (SITE / tail).is_dir() else list((SITE / "lightning").glob(f"**/{tail}"))
        return [file for folder in folders for file in folder.rglob("*.py*") if file.suffix in (".py", ".pyx")]
    return [SITE / tail] if (SITE / tail).is_file() else list((SITE / "lightning").glob(f"**/{tail}"))


def is_installed(place: str) -> bool:
    """Whether the package that this place is in is installed. `nvidia` holds packages of its own."""
    parts = place.partition(":")[0].split("/")
    return (SITE / "/".join(parts[: 2 if parts[0] == "nvidia" else 1])).is_dir() if parts[0] else True


class Table(unittest.TestCase):
    def test_all_of_the_table_is_read(self) -> None:
        text, found = table(), rows()
        self.assertEqual(len(found), len(re.findall(r"\bname:", text)))
        self.assertEqual(sum(len(row.code) for row in found), len(re.findall(r"\bcode\(", text)))
        self.assertEqual(sum(len(row.counters) for row in found), len(re.findall(r"\bcounter\(", text)))
        self.assertEqual(sorted(row.name for row in found), sorted(PLACES))
        words = {row.name: row.options for row in found}
        self.assertEqual(words["Grain"], ["MultiprocessingOptions", "mp_prefetch", "num_workers", "per_worker_buffer_size"])
        self.assertEqual(words["XGBoost"], ["device", "n_jobs", "nthread"])
        self.assertEqual(words["Stable-Baselines3"], ["SubprocVecEnv", "make_vec_env", "n_envs", "vec_env_cls"])
        self.assertLessEqual({"AUTOTUNE", "map", "num_parallel_calls", "prefetch"}, set(words["Keras"]))

    def test_installed_libraries_have_what_the_table_says(self) -> None:
        missing = []
        for row in rows():
            if not is_installed(PLACES[row.name][0]):
                missing.append(row.name)
                continue
            with self.subTest(row.name):
                for one in row.code:
                    self.check_functions(one)
                for one, names in row.counters:
                    self.check_variables(one, names)
                there = {name for place in (PLACES[row.name] if row.options else []) for name in names_at(place)}
                self.assertEqual(set(row.options) - there, set(), "no such option")
        print(f"libraries: {len(PLACES) - len(missing)} of {len(PLACES)} rows checked; not installed: {', '.join(missing) or 'none'}")

    def check_functions(self, code: Code) -> None:
        # A row may name the files of several versions.
        files = [file for tail in code.files for file in installed(tail)]
        self.assertTrue(files, code.files)
        there = {name for file in files for name in functions_of(file)} if code.functions else set()
        self.assertEqual(set(code.functions) - there, set(), f"not in {code.files}")

    def check_variables(self, code: Code, names: list[str]) -> None:
        if set(names) <= NO_VARIABLES:
            return
        files = [file for tail in code.files for file in installed(tail)]
        # An object in an attribute is set up by another function; a progress bar has its number from tqdm.
        of_object = [name for name in names if name.startswith("self.") and name.count(".") > 1]
        wanted = {name.removeprefix("self.").partition(".")[0] if name.endswith(".n") else name.rpartition(".")[2] for name in names}
        # Or the functions of several versions.
        there = [functions_of(file) for file in files]
        bodies = [body for found in there for name, all_of in found.items() if of_object or name in code.functions for body in all_of]
        self.assertTrue(any(wanted <= variables(body) for body in bodies), f"{names} in {code.functions} of {code.files}")


if __name__ == "__main__":
    unittest.main()
