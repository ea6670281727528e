"""Made-up images of squares and crosses, as torchvision's datasets give theirs."""

import torch
from torch.utils.data import Dataset


class Shapes(Dataset):
    def __init__(self, train, transform=None):
        self.count = 160 if train else 40
        self.first = 0 if train else 160
        self.transform = transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.first + index)
        label = index % 2
        image = torch.zeros(1, 12, 12)
        row, column = torch.randint(1, 6, (2,), generator=generator).tolist()
        if label:
            image[0, row + 2, column : column + 5] = 1
            image[0, row : row + 5, column + 2] = 1
        else:
            image[0, row : row + 5, column : column + 5] = 1
        return self.transform(image) if self.transform else image, label


def flip_and_blur(image):
    if torch.rand(1) < 0.5:
        image = image.flip(-1)
    return image + 0.1 * torch.randn_like(image)


def training_data():
    return Shapes(train=True, transform=flip_and_blur)


def test_data():
    return Shapes(train=False)
