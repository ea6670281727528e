"""Images that know their number: all bytes of one are the same."""

import numpy as np

SHAPE = (3, 224, 224)


class Images:
    def __len__(self):
        return 2_000_000

    def __getitem__(self, index):
        return np.full(SHAPE, index % 251, np.uint8), index


def dataset():
    return Images()
