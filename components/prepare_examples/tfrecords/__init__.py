"""TFRecord files of tf.train.Example, written in whole batches."""
