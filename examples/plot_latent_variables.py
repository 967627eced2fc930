"""
Two numbers for each picture: a map of digits
=============================================

Principal components are a linear map, and two of them say little about an image. The Bayesian
GP-LVM learns two latent variables for each image, of which all pixels are smooth functions.
"""

# %%
# The data
# --------
# Images of 8 x 8 pixels of handwritten digits: 600 to learn from, and others to place on the map.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from sparsegpc.decomposition import BayesianGPLVM

X, y = load_digits(return_X_y=True)
X_train, y_train, X_test, y_test = X[:600], y[:600], X[600:], y[600:]

pca = PCA(n_components=2).fit(X_train)
gplvm = BayesianGPLVM(n_components=2, n_inducing=30).fit(X_train)

# %%
# Two maps
# --------
# The model has not seen the labels of the digits, which are shown as colours. How well a map
# separates them is measured by the share of test images whose label its three nearest neighbours on
# the map predict. The score is the mean log density of a test image, for the GP-LVM a lower bound.
colors = plt.get_cmap("tab10")
figure, axes = plt.subplots(1, 2, figsize=(10.0, 5.0), layout="constrained")
for ax, title, model in zip(axes, ("PCA", "Bayesian GP-LVM"), (pca, gplvm), strict=True):
    train, test = model.transform(X_train), model.transform(X_test)
    share = KNeighborsClassifier(3).fit(train, y_train).score(test, y_test)
    print(f"{title:15s} names found: {share:.0%}   score: {model.score(X_test):.1f}")
    for digit in range(10):
        rows = train[y_train == digit]
        ax.plot(*rows.T, ".", color=colors(digit), markersize=4)
        place = rows[np.abs(rows[:, None] - rows).sum(axis=(1, 2)).argmin()]
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.0}
        ax.text(*place, str(digit), color=colors(digit), weight="bold", fontsize=14, bbox=box)
    ax.set(title=title, xlabel="first component", ylabel="second component")

# %%
# What lies where
# ---------------
# ``inverse_transform`` predicts the image at any place of the map. Between two digits lie images
# that are a little of both.
low, high = np.percentile(gplvm.embedding_, [1.0, 99.0], axis=0)
across, down = np.linspace(low[0], high[0], 15), np.linspace(high[1], low[1], 11)
places = np.stack([axis.ravel() for axis in np.meshgrid(across, down)], axis=1)
images = gplvm.inverse_transform(places).reshape(11, 15, 8, 8)
images = np.pad(images, [(0, 0), (0, 0), (1, 1), (1, 1)])
mosaic = images.transpose(0, 2, 1, 3).reshape(110, 150)
figure, ax = plt.subplots(figsize=(8.5, 6.0), layout="constrained")
ax.imshow(mosaic, cmap="gray_r", vmin=0.0, vmax=16.0)
ax.set_xticks(10 * np.arange(0, 15, 2) + 4.5, across[::2].round(1))
ax.set_yticks(10 * np.arange(0, 11, 2) + 4.5, down[::2].round(1))
ax.set(xlabel="first component", ylabel="second component")

# %%
# Half an image
# -------------
# Missing values are ``nan``. The upper half of an image places it on the map, and the map predicts
# the lower half.
shown = X_test[:8]
halves = shown.copy()
halves[:, 32:] = np.nan
completed = gplvm.inverse_transform(gplvm.transform(halves))
rows = {"image": shown, "upper half": halves, "predicted": completed}
figure, axes = plt.subplots(3, 8, figsize=(8.0, 3.4), layout="constrained")
for row, (name, images) in zip(axes, rows.items(), strict=True):
    for ax, image in zip(row, images, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=16.0)
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
plt.show()
