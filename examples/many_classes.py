"""More than two classes, several labels at a row, and counts of labels.

1. Handwritten digits: one model with a function for each class, by two likelihoods, and a model for
   each class against the rest, beside logistic regression on the same split. The digits that the
   first is least certain of are drawn with their probabilities into output/many_classes.png.
2. Rows that bear any number of labels: scikit-learn's MultiOutputClassifier, a model for each.
3. Counts of successes and failures at each row, as weights.
"""

import time
from pathlib import Path

import matplotlib
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import SparseGPClassifier

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).parent.parent / "output" / "many_classes.png"
N_DRAWN = 8


def compare_on_digits():
    """Print accuracy, log loss and seconds; return the softmax model and the test rows."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X / 16.0, y, train_size=600, stratify=y, random_state=0
    )
    models = {
        "softmax": SparseGPClassifier(n_inducing=60),
        "dirichlet": SparseGPClassifier(n_inducing=60, likelihood="dirichlet"),
        "one against the rest": SparseGPClassifier(n_inducing=60, likelihood="bernoulli-logit"),
        "logistic regression": LogisticRegression(max_iter=1000),
    }
    print(f"Digits: {len(y_train)} training rows, {len(y_test)} test rows, 10 classes")
    print(f"{'':22s}{'accuracy':>9s}{'log loss':>10s}{'fit s':>8s}")
    for name, model in models.items():
        start = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - start
        loss = log_loss(y_test, model.predict_proba(X_test))
        print(f"{name:22s}{model.score(X_test, y_test):9.3f}{loss:10.4f}{seconds:8.2f}")
    return models["softmax"], X_test, y_test


def draw_uncertain(model, X, y):
    """Draw the rows whose most probable class is least so."""
    rows = np.argsort(model.predict_proba(X).max(axis=1))[:N_DRAWN]
    proba, (low, high) = model.predict_proba(X[rows]), model.predict_proba_interval(X[rows])
    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    figure.suptitle(
        "The digits that the model is least certain of: "
        "probabilities (blue: the right class) and 95 % intervals"
    )
    for part, row, p, a, b in zip(
        figure.subfigures(2, N_DRAWN // 2).flat, rows, proba, low, high, strict=True
    ):
        image, bars = part.subplots(1, 2, width_ratios=(1, 1.2))
        image.imshow(X[row].reshape(8, 8), cmap="gray_r")
        image.set_title(f"a {y[row]}", fontsize=10)
        image.set(xticks=[], yticks=[])
        colours = np.where(model.classes_ == y[row], "tab:blue", "0.7")
        bars.barh(model.classes_, p, color=colours)
        bars.hlines(model.classes_, a, b, color="black", lw=1)
        bars.set(xlim=(0, 1), yticks=model.classes_)
        bars.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        bars.tick_params(labelsize=8, length=0)
        bars.invert_yaxis()
        bars.spines[["top", "right"]].set_visible(False)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=100)
    print(f"Picture written to {OUTPUT.relative_to(OUTPUT.parent.parent)}")


def compare_on_labels():
    """Print how well each label of rows that bear several is predicted."""
    X, Y = make_multilabel_classification(800, n_features=10, n_classes=4, random_state=0)
    X_train, X_test, Y_train, Y_test = train_test_split(X, Y, random_state=0)
    print(f"\nSeveral labels: {len(Y_train)} training rows, {Y.shape[1]} labels")
    print(f"{'':22s}{'accuracy':>9s}{'log loss':>10s}   for each label")
    for model in (SparseGPClassifier(n_inducing=50), LogisticRegression()):
        name = type(model).__name__
        model = make_pipeline(StandardScaler(), MultiOutputClassifier(model)).fit(X_train, Y_train)
        accuracy = (model.predict(X_test) == Y_test).mean()
        losses = [
            log_loss(t, p) for t, p in zip(Y_test.T, model.predict_proba(X_test), strict=True)
        ]
        each = "  ".join(f"{loss:.3f}" for loss in losses)
        print(f"{name:22s}{accuracy:9.3f}{np.mean(losses):10.4f}   {each}")


def fit_counts():
    """Fit successes among trials, and print the estimated rate beside the true one."""
    rng = np.random.RandomState(0)
    x = np.linspace(0.0, 10.0, 41)[:, None]
    rate = expit(2.0 * np.sin(x[:, 0]))
    trials = rng.randint(5, 60, size=len(x))
    successes = rng.binomial(trials, rate)
    # Each row once for its successes and once for its failures.
    model = SparseGPClassifier().fit(
        np.concatenate([x, x]),
        np.repeat([1, 0], len(x)),
        sample_weight=np.concatenate([successes, trials - successes]),
    )
    low, high = (ends[:, 1] for ends in model.predict_proba_interval(x))
    error = np.abs(model.predict_proba(x)[:, 1] - rate)
    raw = np.abs(successes / trials - rate)
    inside = np.mean((low <= rate) & (rate <= high))
    print(f"\nCounts: {len(x)} rows of 5 to 59 trials each")
    print(f"mean error of the rate {error.mean():.3f}, of successes / trials {raw.mean():.3f}")
    print(f"{inside:.0%} of the true rates are in the 95 % intervals")


if __name__ == "__main__":
    draw_uncertain(*compare_on_digits())
    compare_on_labels()
    fit_counts()
