"""Learning from minibatches of rows: of a data set, or of a stream."""
