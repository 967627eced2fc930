"""Learning from minibatches of the rows of a data set or a stream."""
