"""Graphs that reach outside their model are recognized; ordinary exports are not refused."""

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from trainer.errors import TrainerError
from trainer.serving.outside_operations import check_graph

TEXTS = tf.TensorSpec([None], tf.string, name="x")


def check(folder):
    check_graph((folder / "saved_model.pb").read_bytes(), model_dir=str(folder))


def save(function, folder, *, module=None):
    """Save a module with a function of a batch of texts as its signature."""
    module = module or tf.Module()
    module.serve = tf.function(function).get_concrete_function(TEXTS)
    tf.saved_model.save(module, str(folder), signatures=module.serve)
    return folder


def edit(folder, change):
    """Change the graph of a saved model, as an author with an own tool could."""
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    change(saved.meta_graphs[0])
    path.write_bytes(saved.SerializeToString())
    return folder


def vocabulary_table(path):
    initializer = tf.lookup.TextFileInitializer(
        str(path),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    return tf.lookup.StaticHashTable(initializer, -1)


@pytest.fixture
def with_table(tmp_path):
    """A model with a variable and a lookup table from an asset."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    module = tf.Module()
    module.table, module.factor = vocabulary_table(tmp_path / "words.txt"), tf.Variable(2)
    return save(module.table.lookup, tmp_path / "table", module=module)


def test_a_model_with_variables_and_a_vocabulary_may_be_saved_again(with_table, tmp_path):
    check(with_table)
    loaded = tf.saved_model.load(str(with_table))
    tf.saved_model.save(loaded, str(tmp_path / "again"), signatures=loaded.signatures)
    check(tmp_path / "again")


def test_exports_of_keras_and_of_a_session_are_not_refused(tmp_path):
    (tmp_path / "words.txt").write_text("a\nb\n")
    texts = keras.Input((1,), dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=str(tmp_path / "words.txt"))(texts)
    vectors = keras.layers.TextVectorization(vocabulary=["a"], output_sequence_length=1)(texts)
    model = keras.Model(texts, [keras.layers.Embedding(4, 2)(lookup), vectors])
    model.compile("adam", "mse")
    model.export(str(tmp_path / "keras"), verbose=False)
    check(tmp_path / "keras")
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2])
        y = x @ v1.get_variable("w", [2, 1])
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "v1"), {"x": x}, {"y": y})
    check(tmp_path / "v1")


def read_in_loop(x):
    return tf.map_fn(tf.io.read_file, x)


def write_if_asked(x):
    def write():
        tf.io.write_file(x[0], "text")
        return x

    return tf.cond(tf.size(x) > 1, write, lambda: x)


def print_to_file(x):
    tf.print(x, output_stream="file:///tmp/printed")
    return x


def read_records(x):
    return tf.data.TFRecordDataset(x).map(tf.strings.upper).reduce(tf.constant(""), tf.add)


def save_tensors(x):
    tf.raw_ops.SaveV2(prefix=x[0], tensor_names=["x"], shape_and_slices=[""], tensors=[x])
    return x


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (read_in_loop, "ReadFile"),
        (write_if_asked, "WriteFile"),
        (print_to_file, "PrintV2"),
        (read_records, "TFRecordDataset"),
        (save_tensors, "SaveV2"),
        (tf.io.matching_files, "MatchingFiles"),
        (lambda x: tf.numpy_function(lambda text: text, [x], tf.string), "PyFunc"),
        (lambda x: tf.py_function(lambda text: text, [x], tf.string), "EagerPyFunc"),
        (lambda x: tf.raw_ops.RestoreV2(
            prefix=x[0], tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.string]
        )[0], "RestoreV2"),
        (lambda x: tf.raw_ops.DebugIdentity(input=x, debug_urls=["file:///tmp/d"]),
         "DebugIdentity"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_operation_anywhere_in_the_graph_is_named(function, operation, tmp_path):
    with pytest.raises(TrainerError, match=rf"outside the model: {operation}; .*--trust-graph"):
        check(save(function, tmp_path / "model"))


def test_a_print_to_where_its_caller_says_is_named(tmp_path):
    def give_stream(meta):
        [node] = [
            node
            for function in meta.graph_def.library.function
            for node in function.node_def
            if node.op == "PrintV2"
        ]
        node.attr["output_stream"].placeholder = "stream"

    folder = edit(save(print_to_file, tmp_path / "model"), give_stream)
    with pytest.raises(TrainerError, match="outside the model: PrintV2"):
        check(folder)


def test_printing_to_the_log_is_allowed(tmp_path):
    def serve(x):
        tf.print(x)
        return x

    check(save(serve, tmp_path / "model"))


def use_saver_elsewhere(meta):
    """Make the save function that of an object, which TensorFlow can execute while loading."""
    [name] = [
        f.signature.name for f in meta.graph_def.library.function if "save" in f.signature.name
    ]
    meta.object_graph_def.concrete_functions[name].CopyFrom(
        next(iter(meta.object_graph_def.concrete_functions.values()))
    )


def call_saver(meta):
    """Call the save function in another one."""
    [name] = [
        f.signature.name for f in meta.graph_def.library.function if "save" in f.signature.name
    ]
    function = next(f for f in meta.graph_def.library.function if f.signature.name != name)
    function.node_def.add(name="call", op="PartitionedCall").attr["f"].func.name = name


def restore_with_save(meta):
    """Make the save node the one that restores, which a session runs while it loads the model."""
    meta.saver_def.restore_op_name = meta.saver_def.save_tensor_name.partition(":")[0]


def rename_asset(meta):
    meta.asset_file_def[0].filename = "../../secret"


def name_constant(meta):
    """Let the table's initializer capture something else than the asset."""
    [captures] = [
        value.bound_inputs
        for key, value in meta.object_graph_def.concrete_functions.items()
        if "initializer" in key
    ]
    captures[0] = 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (use_saver_elsewhere, "MergeV2Checkpoints, SaveV2;"),
        (call_saver, "MergeV2Checkpoints, SaveV2;"),
        (restore_with_save, "MergeV2Checkpoints, RestoreV2, SaveV2;"),
        (rename_asset, r"asset '\.\./\.\./secret'"),
        (name_constant, "InitializeTableFromTextFileV2"),
    ],
)
def test_the_names_of_saver_and_assets_hide_nothing(with_table, change, message):
    with pytest.raises(TrainerError, match=message):
        check(edit(with_table, change))


def test_a_link_out_of_the_assets_is_named(with_table, tmp_path):
    asset = with_table / "assets" / "words.txt"
    asset.unlink()
    asset.symlink_to(tmp_path / "words.txt")
    with pytest.raises(TrainerError, match=r"link assets/words\.txt"):
        check(with_table)


def test_a_damaged_file_is_named(tmp_path):
    with pytest.raises(TrainerError, match="/m is not a SavedModel"):
        check_graph(b"\xff\xff", model_dir="/m")
