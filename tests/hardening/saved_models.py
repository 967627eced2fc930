"""Fitted estimators of every kind, ways to save and load them, and what a loaded one is asked."""

import copy
import io
import pickle

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsegpc import (
    GPNoise,
    HomoscedasticNoise,
    InducingPointSelector,
    LocalCorrection,
    PolynomialNoise,
    SparseGPClassifier,
    SparseGPGeneralizedRegressor,
    SparseGPRegressor,
    StochasticSparseGPClassifier,
    StochasticSparseGPGeneralizedRegressor,
    StochasticSparseGPRegressor,
    StudentTNoise,
)
from sparsegpc.decomposition import BayesianGPLVM
from sparsegpc.kernels import Columns
from sparsegpc.likelihoods import BernoulliLogit, BernoulliProbit, DirichletTargets, Gamma

# Models stop early: what is learned is not the point.
QUICK = {
    "n_inducing": 8,
    "max_iter": 1,
    "max_reselections": 0,
    "main_effects": False,
    "random_state": 0,
}
MINIBATCHES = {"n_inducing": 8, "n_epochs": 1, "batch_size": 30, "random_state": 0}


class OwnKernel(RBF):
    """A kernel of a user, which the package knows by its values only."""


class OwnLikelihood(BernoulliLogit):
    """A likelihood of a user."""


def own_callback(step):
    """A callback of a user."""


def rows(n=80):
    X = np.random.RandomState(0).uniform(-3.0, 3.0, (n, 2))
    X.flags.writeable = False
    return X


def labels(n_classes, X=None):
    X = rows() if X is None else X
    noise = np.random.RandomState(1).randn(len(X))
    return np.digitize(np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * noise, [-0.4, 0.4][: n_classes - 1])


def targets(n_outputs=1, X=None):
    X = rows() if X is None else X
    noise = np.random.RandomState(1).randn(len(X)) * np.exp(0.3 * X[:, 1] - 1.5)
    y = np.sin(X[:, 0]) + noise
    return y if n_outputs == 1 else np.column_stack([y, np.cos(X[:, 1]) + noise])


def classifier(n_classes=2, **parameters):
    return SparseGPClassifier(**{**QUICK, **parameters}).fit(rows(), labels(n_classes))


def regressor(n_outputs=1, **parameters):
    return SparseGPRegressor(**{**QUICK, **parameters}).fit(rows(), targets(n_outputs))


def generalized(**parameters):
    model = SparseGPGeneralizedRegressor(**{**QUICK, **parameters})
    # The bounds and answers of a loaded model are asked for the same targets.
    return model.fit(rows(), responses())


def responses():
    return np.maximum(np.round(np.exp(1.0 + targets())), 1.0)


def stream(model, *classes):
    """Return a model after two blocks of rows."""
    y = labels(3) if classes else targets()
    for block in np.array_split(np.arange(80), 2):
        model.partial_fit(rows()[block], y[block], *classes)
    return model


# Every kind of fitted estimator: each keeps other things.
CASES = {
    "binary": classifier,
    "probit": lambda: classifier(likelihood="bernoulli-probit"),
    "conditional": lambda: classifier(likelihood="conditional-polya-gamma"),
    "text labels": lambda: SparseGPClassifier(
        kernel=ConstantKernel(2.0) * Matern(1.5, nu=2.5), **QUICK
    ).fit(rows(), np.array(["no", "yes"])[labels(2)]),
    "softmax": lambda: classifier(3),
    "logistic-softmax": lambda: classifier(3, likelihood="logistic-softmax"),
    "ordered classes": lambda: classifier(4, likelihood="ordinal-logit"),
    "dirichlet": lambda: classifier(3, likelihood=DirichletTargets(0.05)),
    "one for each class": lambda: classifier(3, likelihood="polya-gamma"),
    "regression": regressor,
    "several outputs": lambda: regressor(2, normalize_y=True),
    "polynomial noise": lambda: regressor(noise=PolynomialNoise(1)),
    "noise process": lambda: regressor(noise=GPNoise(RBF(2.0), n_inducing=5)),
    "counts": lambda: generalized(likelihood="negative-binomial"),
    "durations": lambda: generalized(likelihood="weibull"),
    "student-t noise": lambda: regressor(noise=StudentTNoise()),
    "grown": lambda: regressor(n_inducing="auto", max_inducing=30, certificate_tol=1e-6),
    "selector of its own": lambda: regressor(selector=InducingPointSelector(n_components=6)),
    "moved points": lambda: regressor(optimize_inducing=True),
    "classification from minibatches": lambda: StochasticSparseGPClassifier(**MINIBATCHES).fit(
        rows(), labels(3)
    ),
    "regression from minibatches": lambda: StochasticSparseGPRegressor(**MINIBATCHES).fit(
        rows(), targets()
    ),
    "counts from minibatches": lambda: StochasticSparseGPGeneralizedRegressor(**MINIBATCHES).fit(
        rows(), responses(), exposure=2.0
    ),
    "selection": lambda: InducingPointSelector(n_components=6).fit(rows()),
}

# Further parameters, which bring objects of their own or of a user into the file.
VARIANTS = {
    "points by hand": lambda: regressor(selector=rows()[:5]),
    "own kernel": lambda: classifier(kernel=OwnKernel(2.0)),
    "own likelihood": lambda: classifier(likelihood=OwnLikelihood()),
    "positive numbers": lambda: generalized(likelihood=Gamma()),
    "counts of poisson": lambda: generalized(likelihood="poisson"),
    "log-normal": lambda: generalized(likelihood="log-normal"),
    "likelihood object": lambda: classifier(likelihood=BernoulliProbit()),
    "own callback": lambda: regressor(callback=own_callback),
    "generator": lambda: classifier(random_state=np.random.RandomState(3), selector="uniform"),
    "weights of classes": lambda: classifier(class_weight={0: 1.0, 1: 3.0}),
    "length scales": lambda: classifier(kernel=1.0 * RBF([1.0, 2.0])),
    "sum of kernels": lambda: regressor(kernel=RationalQuadratic() + DotProduct() * Matern(nu=0.5)),
    "power of a kernel": lambda: regressor(kernel=Exponentiation(Matern(nu=1.5), 2.0)),
    "white noise": lambda: regressor(kernel=RBF() + WhiteKernel(0.1)),
    "limits": lambda: SparseGPRegressor(**QUICK).fit(rows(), targets(), event=labels(2)),
    "excess noise": lambda: SparseGPRegressor(**QUICK, noise="excess").fit(
        rows(), targets(), noise_variance=0.1
    ),
    "limits with excess noise": lambda: SparseGPRegressor(**QUICK, noise="excess").fit(
        rows(), targets(), noise_variance=0.1, event=labels(2)
    ),
    "fixed noise": lambda: regressor(noise=HomoscedasticNoise(0.1, "fixed")),
    "noise of products": lambda: regressor(noise=PolynomialNoise(2, interactions=True)),
    "noise process of two": lambda: regressor(2, noise="gp"),
    "noise chosen by the bound": lambda: regressor(noise="auto"),
    "averaged hyperparameters": lambda: regressor(hyperparameters="average"),
    "averaged counts": lambda: generalized(
        likelihood="negative-binomial", hyperparameters="average"
    ),
    "student-t noise of two": lambda: regressor(2, noise=StudentTNoise(3.0)),
    "truncated": lambda: regressor().truncate(4, rows(), targets()),
    "truncated classifier": lambda: classifier().truncate(4, rows(), labels(2)),
    "groups of columns": lambda: regressor(kernel=Columns(RBF(), [1]) + Columns(RBF(), range(2))),
    "neighbours": lambda: LocalCorrection(SparseGPRegressor(**QUICK), mode="both").fit(
        rows(), targets()
    ),
    "neighbours of labels": lambda: LocalCorrection(
        SparseGPClassifier(likelihood="polya-gamma", **QUICK), mode="neighbors"
    ).fit(rows(), labels(3)),
    "latent variables": lambda: BayesianGPLVM(n_inducing=5, max_iter=20).fit(rows()),
    "nothing learned": lambda: regressor(optimizer=None),
    "stream of labels": lambda: stream(
        StochasticSparseGPClassifier(**MINIBATCHES, optimize_inducing=True), [0, 1, 2]
    ),
    "stream of targets": lambda: stream(StochasticSparseGPRegressor(**MINIBATCHES, memory=50)),
    "pipeline": lambda: make_pipeline(StandardScaler(), SparseGPClassifier(**QUICK)).fit(
        rows(), labels(2)
    ),
    "features": lambda: make_pipeline(
        InducingPointSelector(n_components=6), StochasticSparseGPRegressor(**MINIBATCHES)
    ).fit(rows(), targets()),
}
# What comes without an answer.
UNFITTED = {
    "classifier": SparseGPClassifier(likelihood=DirichletTargets(0.1), callback=own_callback),
    "regressor": SparseGPRegressor(1.0 * RBF(), noise=GPNoise(RBF(2.0))),
    "stochastic classifier": StochasticSparseGPClassifier(selector=[[0.0, 1.0]]),
    "stochastic regressor": StochasticSparseGPRegressor(memory=10),
    "generalised regressor": SparseGPGeneralizedRegressor(likelihood=Gamma()),
    "selector": InducingPointSelector(n_components=3),
    "latent variables": BayesianGPLVM(n_components=3),
    "neighbours": LocalCorrection(SparseGPRegressor(Columns(RBF(), [0])), n_neighbors=3),
    "noise": GPNoise(n_inducing=7),
    "polynomial": PolynomialNoise(3),
    "constant": HomoscedasticNoise(0.1, (0.01, 1.0)),
}


def by_pickle(model, protocol=pickle.DEFAULT_PROTOCOL):
    return pickle.loads(pickle.dumps(model, protocol=protocol))


def by_joblib(model):
    stream = io.BytesIO()
    joblib.dump(model, stream, compress=3)
    stream.seek(0)
    return joblib.load(stream)


def by_skops(model):
    import skops.io

    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


WAYS = {"pickle": by_pickle, "joblib": by_joblib, "deepcopy": copy.deepcopy, "skops": by_skops}


# What estimators say of new rows, with the arguments behind them. Draws go through eigenvectors, of
# which libraries may return others.
QUESTIONS = {
    "predict": (),
    "predict_proba": (),
    "decision_function": (),
    "latent_mean_and_variance": (),
    "predict_noise_std": (),
    "predict_proba_interval": (),
    "predict_interval": (),
    "survival_function": ([0.5, 2.0],),
    "survival_interval": ([0.5, 2.0],),
    "transform": (),
}
DRAWS = {"sample_f": (3,), "sample_y": (3,)}


def answers(model, questions=None):
    """Return all that a fitted estimator says of new rows, as a dict of arrays."""
    questions = {**QUESTIONS, **DRAWS} if questions is None else questions
    X = np.random.RandomState(2).uniform(-4.0, 4.0, (30, 2))
    found = {
        name: getattr(model, name)(X, *arguments)
        for name, arguments in questions.items()
        if hasattr(model, name)
    }
    return {
        f"{name} {k}": np.asarray(part)
        for name, value in found.items()
        for k, part in enumerate(value if isinstance(value, tuple) else (value,))
    }


def bounds(model):
    """Return what a model says of the data it was fitted to, as a dict of numbers."""
    if not hasattr(model, "certificate"):
        return {}
    y = outcome(model)
    certificate = model.certificate(rows(), y)
    return {
        "gap": certificate.gap,
        "lower": certificate.lower_bound,
        "at other values": model.lower_bound(0.1 + model.kernel_.theta, rows(), y),
    }


def outcome(model):
    """Return the y that a fitted estimator of `CASES` or `VARIANTS` was fitted to."""
    if isinstance(model, SparseGPGeneralizedRegressor):
        return responses()
    if hasattr(model, "classes_"):
        return model.classes_[labels(len(model.classes_))]
    return targets(np.ndim(getattr(model, "prior_mean_", 0.0)) + 1)


def go_on(model):
    """Use a fitted estimator for what comes after predictions: print it, clone it, learn on."""
    repr(model)
    clone(model)
    if hasattr(model, "partial_fit"):
        model.partial_fit(rows(), outcome(model))
    elif hasattr(model, "warm_start"):
        model.set_params(warm_start=True).fit(rows(), outcome(model))
    else:
        model.fit(rows(), outcome(model))
    return answers(model)
