"""Noise that differs from row to row: one variance for all, a polynomial, a Gaussian process.

Targets are a smooth function plus Gaussian noise whose variance grows quadratically from zero, as
in Figure 3.1 of Passerello 2021. The picture is written to output/heteroscedastic_noise.png.
"""

from pathlib import Path

import matplotlib
import numpy as np

from sparsegpc import SparseGPRegressor

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).parent.parent / "output" / "heteroscedastic_noise.png"
TITLES = {
    "homoscedastic": "One noise variance for all rows",
    "polynomial": "Log variance a quadratic polynomial",
    "gp": "Log variance a second Gaussian process",
}


def function(x):
    """Return the true function."""
    return np.sin(1.5 * x) + 0.3 * x


def noise_std(x):
    """Return the true standard deviation of the noise: the variance is quadratic in x."""
    return 0.02 + 0.12 * x


def draw_rows(n_rows, rng):
    """Return rows and noisy targets."""
    X = rng.uniform(0.0, 6.0, size=(n_rows, 1))
    return X, function(X[:, 0]) + noise_std(X[:, 0]) * rng.standard_normal(n_rows)


def draw_bands(axes, model, X, y, grid):
    """Draw data, mean, and two standard deviations of f and of y."""
    mean, std = model.predict(grid, return_std=True)
    latent_std = np.sqrt(model.latent_mean_and_variance(grid)[1])
    x = grid[:, 0]
    axes.scatter(X, y, s=6, c="tab:gray", lw=0, label="targets")
    axes.plot(x, function(x), "k--", lw=1, label="true function")
    axes.plot(x, mean, "tab:blue", label="mean")
    for deviation, alpha, name in ((latent_std, 0.45, "f"), (std, 0.15, "y")):
        axes.fill_between(
            x,
            mean - 2.0 * deviation,
            mean + 2.0 * deviation,
            color="tab:blue",
            alpha=alpha,
            lw=0,
            label=f"2 std of {name}",
        )
    points = model.inducing_points_[:, 0]
    axes.plot(points, np.full(len(points), -2.6), "k|", label=f"{len(points)} inducing points")
    axes.set(xlabel="x", ylabel="y", ylim=(-2.8, 4.5), xlim=(0.0, 6.0))


def main():
    """Fit, compare and draw."""
    rng = np.random.RandomState(0)
    X, y = draw_rows(300, rng)
    X_test, y_test = draw_rows(2000, rng)
    grid = np.linspace(0.0, 6.0, 300)[:, None]
    figure, panels = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    last = panels[1, 1]
    last.plot(grid, noise_std(grid), "k--", lw=1, label="truth")
    print(f"{'noise':15s}{'bound':>9s}{'test log density':>18s}{'error of the noise std':>24s}")
    for axes, (noise, title) in zip(panels.flat, TITLES.items(), strict=False):
        model = SparseGPRegressor(noise=noise, random_state=0).fit(X, y)
        density = model.log_predictive_density(X_test, y_test).mean()
        error = np.abs(model.predict_noise_std(X_test) - noise_std(X_test[:, 0])).mean()
        print(f"{noise:15s}{model.lower_bound_:9.2f}{density:18.3f}{error:24.3f}")
        draw_bands(axes, model, X, y, grid)
        axes.set_title(title)
        last.plot(grid, model.predict_noise_std(grid), label=noise)
    panels[0, 0].legend(loc="upper left", fontsize=8, ncols=2)
    last.set(title="Standard deviation of the noise", xlabel="x", xlim=(0.0, 6.0), ylim=(0.0, None))
    last.legend(loc="upper left", fontsize=8)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=100)
    print(f"Picture written to {OUTPUT.relative_to(OUTPUT.parent.parent)}")


if __name__ == "__main__":
    main()
