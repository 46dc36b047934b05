"""Raw data, fetched and verified, becomes sharded TFRecords of tf.train.Example."""
