"""Made-up reviews of uneven length, and the batches that an EmbeddingBag takes."""

import random

import torch
from torch.utils.data import Dataset

WORDS = ["good", "fine", "great", "bad", "poor", "awful", "film", "plot", "the", "a", "was", "very"]
VOCABULARY = {word: number for number, word in enumerate(WORDS)}


class Reviews(Dataset):
    def __init__(self, split):
        draw = random.Random(split)
        self.texts = []
        for _ in range(200 if split == "train" else 50):
            label = draw.randrange(2)
            mood = WORDS[:3] if label else WORDS[3:6]
            words = draw.choices(mood, k=draw.randint(1, 3)) + draw.choices(WORDS[6:], k=6)
            draw.shuffle(words)
            self.texts.append((label, " ".join(words)))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return self.texts[index]


def collate_batch(batch):
    labels, texts, offsets = [], [], [0]
    for label, text in batch:
        labels.append(label)
        numbers = torch.tensor([VOCABULARY[word] for word in text.split()])
        texts.append(numbers)
        offsets.append(len(numbers))
    return torch.tensor(labels), torch.cat(texts), torch.tensor(offsets[:-1]).cumsum(dim=0)


def train_set():
    return Reviews("train")


def test_set():
    return Reviews("test")
