"""GPflow's sparse variational Gaussian process (Hensman et al. 2015), as a classifier.

GPflow 2 and TensorFlow have to be installed; nothing else of the benchmarks needs them.
"""

import os
import time
from functools import cache
from importlib.util import find_spec

import numpy as np
from sklearn.cluster import KMeans

# Centres of k-means come from at most so many rows.
KMEANS_ROWS = 20000
ATTEMPTS = 5


def gpflow_is_installed():
    return find_spec("gpflow") is not None


@cache
def import_gpflow():
    """Return the modules gpflow and tensorflow, on one thread and without their messages.

    They have evaluated a small model already: TensorFlow sets itself up when it is first used.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
    import gpflow
    import tensorflow

    points = np.zeros((1, 1))
    small = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Bernoulli(), points
    )
    tensorflow.function(small.training_loss_closure((points, points)))()
    return gpflow, tensorflow


def kmeans_centres(X, n_points, seed):
    """Return distinct centres of k-means."""
    if len(X) > KMEANS_ROWS:
        X = X[np.random.RandomState(seed).choice(len(X), KMEANS_ROWS, replace=False)]
    n_points = min(n_points, len(np.unique(X, axis=0)))
    return KMeans(n_points, n_init=1, random_state=seed).fit(X).cluster_centers_


class TimeIsUp(Exception):
    pass


class GPflowSVGP:
    """SVGP with the logistic likelihood, an isotropic squared exponential, and zero mean.

    Everything starts where GPflow starts it (variance 1, q(u) the prior), but the length scale, and
    the points, which are centres of k-means. L-BFGS-B moves all of it at once, on all rows. If a
    matrix cannot be factored on the way, the fit starts again from other centres.

    Parameters
    ----------
    n_inducing : int
    move_points : bool
        Optimise the inducing points, too; else they stay.
    length_scale : float
        Where it starts.
    max_iter : int
        L-BFGS-B iterations.
    max_seconds : float
        CPU seconds after which the best so far is taken.
    seed : int

    Attributes
    ----------
    classes_, lower_bound_, n_evaluations_
    trace_ : list of (CPU seconds since the start of the fit, bound)
        For each evaluation; compilation and k-means count.
    """

    def __init__(self, n_inducing, *, move_points, length_scale, max_iter, max_seconds, seed):
        self.n_inducing, self.move_points = n_inducing, move_points
        self.length_scale, self.max_iter = length_scale, max_iter
        self.max_seconds, self.seed = max_seconds, seed
        import_gpflow()  # so that no fit takes the time of it

    def fit(self, X, y):
        gpflow, tensorflow = import_gpflow()
        self.classes_ = np.unique(y)
        self.trace_ = []
        start = time.process_time()
        for attempt in range(ATTEMPTS):
            model = gpflow.models.SVGP(
                kernel=gpflow.kernels.SquaredExponential(lengthscales=self.length_scale),
                likelihood=gpflow.likelihoods.Bernoulli(invlink=tensorflow.sigmoid),
                inducing_variable=kmeans_centres(X, self.n_inducing, self.seed + 1000 * attempt),
                num_data=len(X),
            )
            gpflow.set_trainable(model.inducing_variable, self.move_points)
            data = X, y[:, None].astype(np.float64)
            try:
                self._minimise(model, data, start)
                break
            except tensorflow.errors.InvalidArgumentError:
                if attempt == ATTEMPTS - 1:
                    raise
        self.n_evaluations_ = len(self.trace_)
        self.lower_bound_ = float(model.elbo(data))
        self.model_ = model
        return self

    def _minimise(self, model, data, start):
        """Move all variables of the model, and record each evaluation."""
        from gpflow.optimizers import Scipy

        trace, max_seconds = self.trace_, self.max_seconds
        best = {"loss": np.inf, "x": None}

        class RecordingScipy(Scipy):
            def eval_func(self, *args, **kwargs):
                function = super().eval_func(*args, **kwargs)

                def recorded(x):
                    loss, slope = function(x)
                    seconds = time.process_time() - start
                    trace.append((seconds, -float(loss)))
                    if loss < best["loss"]:
                        best.update(loss=loss, x=x.copy())
                    if seconds > max_seconds:
                        raise TimeIsUp
                    return loss, slope

                return recorded

        optimizer, variables = RecordingScipy(), model.trainable_variables
        try:
            optimizer.minimize(
                model.training_loss_closure(data),
                variables,
                options={"maxiter": self.max_iter, "maxfun": 10 * self.max_iter},
            )
        except TimeIsUp:
            optimizer.assign_tensors(variables, optimizer.unpack_tensors(variables, best["x"]))

    def predict_proba(self, X):
        """Return the probabilities of both classes, by GPflow's own quadrature."""
        second = self.model_.predict_y(X)[0].numpy()
        return np.hstack([1.0 - second, second])
