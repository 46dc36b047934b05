"""Operations of a SavedModel that reach outside it: files, other programs, Python.

TensorFlow executes functions of a graph already while it loads the graph, so all of them are read,
not only the functions of the serving signature. Two kinds of files are the model's own: its
variables, in the functions that only its saver calls, and its assets, from which lookup tables are
initialized.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef

from trainer.config.trust import GRAPH_FLAG
from trainer.errors import TrainerError

ASSETS = "assets"
_SAVE = frozenset({"SaveV2", "SaveSlices", "MergeV2Checkpoints"})
_RESTORE = frozenset({"RestoreV2", "RestoreSlice"})
# Of the operations that TensorFlow 2.21 registers: all with a path, an address or Python code.
_OUTSIDE = re.compile(
    r"(Experimental)?("
    r"ReadFile|WriteFile|MatchingFiles(Dataset)?|RecordInput|Skipgram|LoadAndRemapMatrix"
    r"|GenerateVocabRemapping|FixedUnigramCandidateSampler|DumpTensor|CalibrationStatisticsSaver"
    r"|(DTensor)?(Save|Restore)(Slices?)?|MergeV2Checkpoints|DistributedSave|\w+Reader"
    r"|(CSV|FixedLengthRecord|LMDB|Sql|TFRecord|TextLine|Cache|Snapshot|Load|Save)Dataset"
    r"|DatasetToTFRecord|\w*SnapshotChunks?Dataset|DataServiceDataset|RegisterDataset"
    r"|DatasetFromGraph|CreateSummary(File|Db)Writer|(Eager)?PyFunc(Stateless)?"
    r"|Debug(Identity|NanCount|NumericSummary)|Rpc\w+|RemoteCall|FileSystemSetConfiguration"
    r"|XlaCustomCall)(V\d)?"
)
_TABLE_FILE = re.compile(r"InitializeTableFromTextFile(V2)?")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def _saved_model_class() -> Any:
    """Return the message of a saved_model.pb, which is not among tensorboard's messages."""
    graph = MetaGraphDef.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="trainyard/saved_model.proto", dependency=[graph.file.name], syntax="proto3"
    )
    file.message_type.add(name="SavedModel").field.add(
        name="meta_graphs",
        number=2,
        label=descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{graph.full_name}",
    )
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    message = descriptor_pool.Default().FindMessageTypeByName("SavedModel")
    return message_factory.GetMessageClass(message)


_SavedModel = _saved_model_class()


def check_graph(content: bytes, *, model_dir: str) -> None:
    """Check that a SavedModel, given the content of its saved_model.pb, stays in its folder.

    Raises:
        TrainerError: it reaches outside, or is damaged; the message has the operations.
    """
    try:
        saved = _SavedModel.FromString(content)
    except DecodeError as error:
        raise TrainerError(
            f"{model_dir} is not a SavedModel: {error}; export or copy the model again"
        ) from error
    graphs = [_Graph(meta, is_only=len(saved.meta_graphs) == 1) for meta in saved.meta_graphs]
    reasons = {reason for graph in graphs for reason in graph.reasons()}
    reasons |= set(_links_outside(Path(model_dir, ASSETS)))
    if reasons:
        raise TrainerError(
            f"the graph of {model_dir} reaches outside the model: {', '.join(sorted(reasons))}; it"
            f" would do that with your rights. Give {GRAPH_FLAG} if you trust its author"
        )


def _links_outside(assets: Path) -> Iterator[str]:
    for path in assets.rglob("*") if assets.is_dir() else ():
        if not path.resolve().is_relative_to(assets.parent.resolve()):
            yield f"link {ASSETS}/{path.relative_to(assets)}"


class _Graph:
    """The graph and the functions of a MetaGraph; a scope is a function, or None for the graph."""

    def __init__(self, meta: Any, *, is_only: bool):
        self._meta = meta
        # TensorFlow restores the objects then, and executes functions but not the graph.
        self._has_objects = is_only and meta.HasField("object_graph_def")
        self._nodes = {node.name: node for node in meta.graph_def.node}
        functions = meta.graph_def.library.function
        self._functions = {function.signature.name: function for function in functions}
        concrete = meta.object_graph_def.concrete_functions
        self._captures = {name: function.bound_inputs for name, function in concrete.items()}
        self._assets = {asset.tensor_info.name for asset in meta.asset_file_def}

    def reasons(self) -> Iterator[str]:
        for asset in self._meta.asset_file_def:
            if _leaves_folder(asset.filename):
                yield f"asset {asset.filename!r}"
        allowed = self._saver_operations()
        for scope, node in self._all_nodes():
            name = node.name if scope is None else scope.signature.name
            own = allowed.get((scope is None, name), frozenset())
            if node.op not in own and self._is_outside(scope, node):
                yield node.op

    def _all_nodes(self) -> Iterator[tuple[Any, Any]]:
        for node in self._nodes.values():
            yield None, node
        for function in self._functions.values():
            for node in function.node_def:
                yield function, node

    def _is_outside(self, scope: Any, node: Any) -> bool:
        if _TABLE_FILE.fullmatch(node.op):
            return not self._is_asset(scope, node.input[1] if len(node.input) > 1 else "", ())
        if node.op == "PrintV2":
            stream = node.attr["output_stream"]
            return bool(stream.placeholder or stream.s.startswith(b"file:"))  # of any caller
        return _OUTSIDE.fullmatch(node.op) is not None

    def _saver_operations(self) -> dict[tuple[bool, str], frozenset[str]]:
        """Return the operations that the saver's own nodes and functions may have.

        The keys are (True, node of the graph) and (False, function). Own are those that nothing but
        the saver's result needs: no signature, no other node or function, no object.
        """
        saver = self._meta.saver_def
        save = self._needed_by([saver.save_tensor_name])
        restore = self._needed_by([saver.restore_op_name])
        roots = [name for name in self._nodes if name not in save | restore]
        for collection in self._meta.collection_def.values():
            roots += collection.node_list.value
        for signature in self._meta.signature_def.values():
            roots += [output.name for output in signature.outputs.values()]
        rest = self._needed_by(roots)
        saving, restoring = self._called_by(save), self._called_by(restore)
        unused = set(self._functions) - saving - restoring
        used = self._called_by(rest) | self._closure({*self._captures, *unused})
        return {
            (is_node, name): operations
            for is_node, names, operations in (
                (True, save - restore - rest, _SAVE),
                (True, restore - save - rest, _RESTORE),
                (False, saving - restoring - used, _SAVE),
                (False, restoring - saving - used, _RESTORE),
            )
            for name in names
        }

    def _needed_by(self, names: Iterable[str]) -> set[str]:
        """Return the nodes of the graph that these nodes or tensors need, and themselves."""
        seen: set[str] = set()
        stack = [_node_name(name) for name in names]
        while stack:
            name = stack.pop()
            if name in self._nodes and name not in seen:
                seen.add(name)
                stack += map(_node_name, self._nodes[name].input)
        return seen

    def _called_by(self, nodes: Iterable[str]) -> set[str]:
        return self._closure({name for node in nodes for name in _functions_of(self._nodes[node])})

    def _closure(self, names: set[str]) -> set[str]:
        seen: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in self._functions and name not in seen:
                seen.add(name)
                for node in self._functions[name].node_def:
                    stack += _functions_of(node)
        return seen

    def _is_asset(self, scope: Any, tensor: str, seen: tuple[tuple[str, int], ...]) -> bool:
        if scope is None:
            return f"{_node_name(tensor)}:0" in self._assets
        name = scope.signature.name
        arguments = [argument.name for argument in scope.signature.input_arg]
        if tensor not in arguments:
            return False  # computed in the function
        index = arguments.index(tensor)
        if (name, index) in seen:
            return True
        captured = index - len(arguments) + len(self._captures.get(name, ()))
        origins = [
            node.op in _CALLS
            and index < len(node.input)
            and self._is_asset(caller, node.input[index], (*seen, (name, index)))
            for caller, node in self._all_nodes()
            if name in _functions_of(node) and not (caller is None and self._has_objects)
        ]
        if self._has_objects and name in self._captures:
            origins.append(captured >= 0 and self._is_asset_object(self._captures[name][captured]))
        return bool(origins) and all(origins)

    def _is_asset_object(self, number: int) -> bool:
        objects = self._meta.object_graph_def.nodes
        return 0 <= number < len(objects) and objects[number].HasField("asset")


def _leaves_folder(filename: str) -> bool:
    path = PurePosixPath(filename)
    return path.is_absolute() or ".." in path.parts or "://" in filename


def _node_name(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _functions_of(node: Any) -> list[str]:
    """Return the names in a node's attributes, and its operation, which may be a function's."""
    return [node.op, *_names_in(node.attr.values())]


def _names_in(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        for called in (value.func, *value.list.func):
            if called.name:
                yield called.name
                yield from _names_in(called.attr.values())
