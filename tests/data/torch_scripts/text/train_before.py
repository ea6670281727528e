import torch
from reviews import VOCABULARY, collate_batch, test_set, train_set
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
train_dataloader = DataLoader(train_set(), batch_size=8, shuffle=True, collate_fn=collate_batch)
test_dataloader = DataLoader(test_set(), batch_size=8, collate_fn=collate_batch)


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim)
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


model = TextClassificationModel(len(VOCABULARY), 8, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)


def train(dataloader):
    model.train()
    for idx, (label, text, offsets) in enumerate(dataloader):
        optimizer.zero_grad()
        loss = criterion(model(text, offsets), label)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        if idx % 10 == 0:
            print(f"{idx:5d}/{len(dataloader):5d} batches, loss: {loss.item():.7f}", flush=True)


def evaluate(dataloader):
    model.eval()
    total_acc, total_count = 0, 0
    with torch.no_grad():
        for label, text, offsets in dataloader:
            total_acc += (model(text, offsets).argmax(1) == label).sum().item()
            total_count += label.size(0)
    return total_acc / total_count


for epoch in range(1, 4):
    train(train_dataloader)
    print(f"epoch {epoch}, accuracy: {evaluate(test_dataloader):.4f}", flush=True)
    scheduler.step()
