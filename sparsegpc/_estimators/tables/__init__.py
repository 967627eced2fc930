"""Tables of mixed columns: their conversion to numbers, and a pipeline that begins with it."""
