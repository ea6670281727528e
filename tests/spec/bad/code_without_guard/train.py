from launcher.data import DataLoader


class Digits(list):
    pass


def collate(samples):
    return samples


loader = DataLoader(Digits, batch_size=64, collate_fn="train:collate")
