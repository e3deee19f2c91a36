import numpy as np
import xgboost as xgb

import tally


class Progress(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        tally.units()
        if epoch % 50 == 0:
            print(epoch, evals_log["valid"]["logloss"][-1], flush=True)
        return False


rng = np.random.default_rng(0)
X = rng.normal(size=(80_000, 50)).astype(np.float32)
y = (X @ rng.normal(size=50) + 2 * rng.normal(size=len(X)) > 0).astype(np.float32)
dtrain = xgb.DMatrix(X[:70_000], label=y[:70_000])
dvalid = xgb.DMatrix(X[70_000:], label=y[70_000:])

params = {"objective": "binary:logistic", "max_depth": 8, "eta": 0.02, "tree_method": "hist"}
booster = xgb.train(params, dtrain, num_boost_round=1_000_000, evals=[(dvalid, "valid")], verbose_eval=False, callbacks=[Progress()])
booster.save_model("clicks.json")
