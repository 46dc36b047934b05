"""Writes a SavedModel with two signatures, one with texts: `python -m … FOLDER`."""

import sys


def main() -> None:
    import tensorflow as tf

    floats, texts = tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.string)
    module = tf.Module()
    module.w = tf.Variable(2.0)
    module.double = tf.function(lambda x: {"y": module.w * x}, input_signature=[floats])
    module.join = tf.function(
        lambda left, right: {
            "text": left + right,
            "raw_bytes": left,
            "n": tf.strings.length(right),
        },
        input_signature=[texts, texts],
    )
    signatures = {"serving_default": module.double, "join": module.join}
    tf.saved_model.save(module, sys.argv[1], signatures)


if __name__ == "__main__":
    main()
