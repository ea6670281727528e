import torch
from torch import nn
from torch.utils.data import DataLoader

from table import train_set, validation_set

torch.manual_seed(0)
train_loader = DataLoader(train_set(), batch_size=32, shuffle=True, drop_last=True)
validation_loader = DataLoader(validation_set(), batch_size=64)

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loss_function = nn.MSELoss()

for epoch in range(4):
    model.train()
    running_loss = 0.0
    for inputs, targets in train_loader:
        optimizer.zero_grad()
        loss = loss_function(model(inputs).squeeze(1), targets)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * inputs.size(0)
    model.eval()
    with torch.no_grad():
        losses = [loss_function(model(x).squeeze(1), y).item() for x, y in validation_loader]
    train_loss = running_loss / (len(train_loader) * train_loader.batch_size)
    print(f"epoch {epoch} loss {train_loss:.7f} {sum(losses) / len(losses):.7f}", flush=True)
