def train_set():
    return range(100)


def test_set():
    return range(10)
