import torch
from images import test_data, training_data
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
train_dataloader = DataLoader(training_data(), batch_size=16, shuffle=True)
test_dataloader = DataLoader(test_data(), batch_size=16)


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.stack = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3),
            nn.Flatten(),
            nn.Linear(8 * 4 * 4, 2),
        )

    def forward(self, x):
        return self.stack(x)


model = NeuralNetwork()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(dataloader, model, loss_fn, optimizer):
    size = len(dataloader.dataset)
    model.train()
    for batch, (images, y) in enumerate(dataloader):
        loss = loss_fn(model(images), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if batch % 5 == 0:
            print(f"loss: {loss.item():.7f}  [{batch * len(images):>5d}/{size:>5d}]", flush=True)


def test(dataloader, model, loss_fn):
    size, num_batches = len(dataloader.dataset), len(dataloader)
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for images, y in dataloader:
            pred = model(images)
            test_loss += loss_fn(pred, y).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    print(f"accuracy: {correct / size:.4f}, avg loss: {test_loss / num_batches:.7f}", flush=True)


for t in range(3):
    print(f"epoch {t + 1}")
    train(train_dataloader, model, loss_fn, optimizer)
    test(test_dataloader, model, loss_fn)
