"""Texts of the data in generated source: each is a literal equal to it, and nothing else."""

import ast
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from PIL import Image

from components.prepare_examples.errors import DataError
from pipelines.projects.continuous import write_integration
from pipelines.projects.literals import SourceText, call, comment, fill, literal, quoted
from pipelines.projects.scripts.record import RecordedScript
from pipelines.projects.starter import images
from pipelines.projects.starter.folder import check_new, write_folder
from pipelines.projects.starter.images import start_images
from pipelines.projects.starter.records import start_records
from pipelines.projects.starter.tables import start_table
from pipelines.schedules.file import read_schedule
from tests.support.data.cases.records import example, records_of
from trainer.errors import ConfigError
from trainer.references import valid_name
from trainer.workloads import ImageFolder, Records, Table, Workload, load_workload
from trainer.workloads.declarations.names import normal_form

PIECES = (
    *"\"'\\%#*& a\n\r\t\x0b\x7f\x85\xa0\u2028\u202e\ufeff\u00df\u0301\U0001f600",
    *('"""', "'''", "\\N{", "\\x", "{}", "{0.real}", "%s", ": ", "- ", "? ", "\x1b[2J", "m\u00b2"),
    *("${{ x }}", "$(touch PWNED)", "`touch PWNED`", "; touch PWNED", "!!python/none "),
    *("+str(open('PWNED', 'w'))+", "\nopen('PWNED', 'w')\n", "@FOLDER@", "null", "A" * 10_000),
)
pieces = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
texts = (pieces | st.text(max_size=20)).filter(str.strip)
values_of_two = st.lists(
    pieces.map(str.strip).filter(lambda text: text not in ("", "null", "?", "-")),
    min_size=2,
    max_size=2,
    unique_by=str.casefold,
)
pytestmark = pytest.mark.timeout(180)
many = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
few = settings(many, max_examples=25)
STARTER = Path(images.__file__).parent


@pytest.fixture(autouse=True)
def nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob("PWNED"))


@many
@given(texts | st.just("\x00") | st.just("\udc80"))
def test_a_literal_is_the_text_in_python_and_in_yaml(text):
    source = quoted(text)
    assert ast.literal_eval(source) == text
    assert source.isprintable()
    assert yaml.safe_load(f"a: {{b: {source}, c: 1}}  # d") == {"a": {"b": text, "c": 1}}
    assert yaml.safe_load(literal({"train": [text, text]})) == {"train": [text, text]}


@many
@given(st.recursive(texts | st.integers() | st.booleans(), lambda inner: st.tuples(inner, inner)))
def test_a_call_has_its_values(value):
    [statement] = ast.parse(call("Category", value, values={"a": value})).body
    made = statement.value
    assert ast.literal_eval(made.args[0]) == value
    assert ast.literal_eval(made.keywords[0].value) == {"a": value}
    assert literal((value,)).endswith(",)")


@many
@given(texts | st.just("\x00"))
def test_a_text_stays_in_its_docstring_or_comment(text):
    source = fill('"""{}"""\n# {}\n# {}\na = "{}"', text, comment(text), text, text)
    docstring, assignment = ast.parse(source).body
    assert docstring.value.value == assignment.value.value == text
    assert yaml.safe_load(fill("# {}\na: 1", comment(text))) == {"a": 1}


# Names and values of data, in the files of a new folder.


def loaded(folder: Path) -> Workload:
    """Return a folder's workload; its files have the usual statements only."""
    for path in [folder / "workload.py", *folder.glob("tests/*.py")]:
        docstring, *body = ast.parse(path.read_text("utf-8")).body
        assert isinstance(docstring.value, ast.Constant)
        usual = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.Assign
        assert [line for line in body if not isinstance(line, usual)] == []
    run = yaml.safe_load((folder / "run.yaml").read_text("utf-8"))
    assert set(run) == {"prepare", "train"}
    assert set(run["prepare"]) <= {"files", "ratios"}
    [schedule] = folder.glob("schedules/*.yaml")
    assert set(yaml.safe_load(schedule.read_text("utf-8"))) == {
        *("workload", "cron", "time_zone", "paused")
    }
    read_schedule(schedule)
    return load_workload(str(folder))


def is_file_name(name: str) -> bool:
    """Return whether a folder can have a name; those with a point in front are hidden."""
    return len(name.encode()) < 200 and not {"/", "\0"} & {*name} and name.strip(".") == name


def new_folder(name: str) -> Path:
    """Return a new folder's path, in a folder of this name if there can be one for runs."""
    is_allowed = is_file_name(name) and name.isprintable()
    parent = Path(str(len(list(Path().iterdir()))), *([name] if is_allowed else []))
    parent.mkdir(parents=True)
    return parent / "own"


@few
@given(st.lists(texts, min_size=3, max_size=3, unique_by=normal_form), values_of_two)
def test_tables_have_their_names_and_values(names, values):
    time, feature, label = names
    moments = range(1_700_000_000, 1_700_000_000 + 80 * 90_000, 90_000)
    table = {
        time: pa.array(moments, pa.timestamp("s")),
        feature: [values[row % 3 == 0] for row in range(80)],
        label: [values[row % 7 == 0] for row in range(80)],
    }
    folder = new_folder(feature)
    path = folder.parent / "data.parquet"
    pq.write_table(pa.table(table), path)
    start = start_table([str(path)], label)
    write_folder(folder, start)
    workload = loaded(folder)
    assert isinstance(workload, Table)
    declared = [*(column.name for column in workload.features), workload.label.column]
    names_in_files = {name: own_name for own_name, name in workload.aliases.items()}
    own = [names_in_files.get(name, name) for name in declared]
    assert own == [name if name in own else normal_form(name) for name in names]
    assert sorted(workload.label.names) == sorted(values)
    [rule] = [note for note in start.notes if note.startswith("rows are ordered by")]
    rule = rule.partition("write split: ")[2].removesuffix(" below prepare in run.yaml")
    assert yaml.safe_load(rule)["by"] == time


@few
@given(st.lists(texts, min_size=3, max_size=3, unique=True))
def test_records_have_their_names(names):
    feature, mixed, label = names
    folder = new_folder(feature)
    content = {mixed: [b"\xff\xfe"]}
    items = [example(**content, **{feature: [row / 2], label: [row % 2]}) for row in range(40)]
    records_of("a.tfrecord", items)(folder.parent)
    write_folder(folder, start_records([str(folder.parent / "data")], label))
    workload = loaded(folder)
    assert isinstance(workload, Records)
    assert ([*workload.features], workload.label.column) == ([feature], label)
    assert f"# {comment(f'{mixed}: bytes')} " in (folder / "workload.py").read_text("utf-8")


@few
@given(st.lists(texts.filter(is_file_name), min_size=2, max_size=3, unique=True), st.booleans())
def test_images_have_their_classes(classes, with_script):
    folder = new_folder(classes[0])
    for name in classes:
        (folder.parent / "photos" / name).mkdir(parents=True)
        for row in range(10):
            picture = Image.new("L", (2, 2), row)
            picture.save(folder.parent / "photos" / name / f"{row}.png")
    script = recorded(Path(f"{classes[0]}.py"), classes[:2]) if with_script else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "record", lambda *_: script)
        write_folder(folder, start_images(str(folder.parent / "photos"), script=script and Path()))
    workload = loaded(folder)
    assert isinstance(workload, ImageFolder)
    docstring = ast.parse((folder / "workload.py").read_text("utf-8")).body[0].value.value
    assert f"{min(classes)} 10, " in docstring
    if with_script:
        assert workload.label.names == tuple(classes[:2])


@pytest.mark.parametrize("paths", [(Path("a\nb/own"),), (Path("own"), ["a\nb.csv"])])
def test_a_path_that_cannot_be_printed_is_refused(paths):
    with pytest.raises(DataError, match=r"a\\nb.*give another name"):
        check_new(*paths)


def recorded(path: Path, values: list[str]) -> RecordedScript:
    """Return a script that was run on images of two classes."""
    return RecordedScript(
        path=path,
        line=1,
        imports=SourceText("import keras\n\n"),
        adapter=SourceText("\n\ndef model(inputs):\n    return inputs\n"),
        arguments=SourceText(""),
        label={"kind": "binary", "values": values},
        train={},
        notes=(),
        size=(2, 2),
        channels=1,
    )


@pytest.mark.parametrize(
    "folder", ["null", "1e3", "Über", "a b", "a\nb", "-x", "a'b", "$(x)", "a/b"]
)
def test_files_for_ci_have_the_folder_or_are_refused(folder, tmp_path):
    name = valid_name(folder)
    if folder not in ("null", "1e3", "a/b"):
        with pytest.raises(ConfigError, match="give the folder a name of letters"):
            write_integration(folder, name=name, root=tmp_path)
        assert not [*tmp_path.iterdir()]
        return
    written, _ = write_integration(folder, name=name, root=tmp_path)
    github, *_ = [yaml.safe_load((tmp_path / path).read_text()) for path in written]
    assert github["name"] == name
    assert github[True]["push"]["paths"][0] == f"{folder}/**"
    runs = [step["run"] for step in github["jobs"]["check"]["steps"] if "run" in step]
    assert runs[1].split() == ["python", "-m", "pytest", folder]


def test_source_is_made_of_constants_only():
    """SourceText(…) and the template of fill are constants, so texts of the data are escaped."""
    nodes = [
        node for path in STARTER.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
    ]
    values: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            values.setdefault(ast.unparse(node.targets[0]), []).append(node.value)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    made = [call for call in calls if ast.unparse(call.func) in ("SourceText", "fill")]
    assert len(made) > 30
    assert [ast.unparse(call) for call in made if not is_constant(call.args[0], values)] == []


def is_constant(node: ast.expr, values: dict[str, list[ast.expr]]) -> bool:
    """Return whether an expression is a constant, or a name that has only such values."""
    if isinstance(node, ast.Name):
        known = values.get(node.id, [])
        return bool(known) and all(is_constant(value, values) for value in known)
    if isinstance(node, ast.Subscript):
        return is_constant(node.value, values)
    if isinstance(node, ast.Dict):
        return all(is_constant(value, values) for value in node.values)
    return isinstance(node, ast.Constant)
