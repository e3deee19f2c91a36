"""Runs a notebook from the command line, as papermill does."""
import os

import nbclient
import nbformat

CELLS = [
    "import torch\nfrom torch import nn\nimport tally",
    "data = torch.rand(20_000, 784)\nmodel = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 32), nn.Linear(32, 512), nn.ReLU(),"
    " nn.Linear(512, 784))\noptimizer = torch.optim.Adam(model.parameters())",
    """for epoch in range(100_000):
    for batch in data[torch.randperm(len(data))].split(128):
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tally.units()
    print(epoch, loss.item())""",
]

os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
